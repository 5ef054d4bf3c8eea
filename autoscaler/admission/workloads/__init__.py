"""Workload objects as they are read and written. Pure."""
