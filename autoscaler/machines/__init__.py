"""Machines: room held on chosen nodes for machine types that guests ask for by name (seed 001)."""
