"""Placement: which pods land where, which nodes to launch, and why the rest fits nowhere. Pure."""

from autoscaler.capacity.scaleup.placement.placing import place, why_not
from autoscaler.capacity.scaleup.placement.rules import label_keys

__all__ = ["label_keys", "place", "why_not"]
