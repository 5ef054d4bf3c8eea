"""Capacity: pods that wait become nodes, idle nodes become nothing (seeds 002 and 003)."""
