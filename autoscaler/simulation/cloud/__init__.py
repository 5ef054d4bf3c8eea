"""The simulated cloud: Auto Scaling groups behind the cloud port, in memory and virtual time."""

from autoscaler.simulation.cloud.cloud import SimulatedCloud

__all__ = ["SimulatedCloud"]
