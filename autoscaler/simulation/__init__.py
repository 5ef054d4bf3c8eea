"""The simulated world behind the ports: virtual time, a cluster, its scheduler and its kubelets.

Everything here runs on one virtual-time event loop and is a function of the scenario and a seed: no real clock, no
network, no thread. It must stay true to the real API server; tests/contract holds the two to each other.
"""
