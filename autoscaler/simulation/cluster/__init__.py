"""The simulated cluster: an API server behind the kube port, and the controllers that a cluster has of its own."""

from autoscaler.simulation.cluster.cluster import SimulatedCluster

__all__ = ["SimulatedCluster"]
