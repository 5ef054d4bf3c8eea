"""A real Kubernetes control plane, an AWS of moto and KWOK nodes, all on loopback ports of one computer."""
