"""A real Kubernetes control plane, an AWS of moto and a fleet of KWOK nodes, all on loopback ports of one computer."""
