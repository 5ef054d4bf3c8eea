"""The control plane, the way into it, and what EKS itself brings."""
