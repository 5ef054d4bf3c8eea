"""Leases, and who of several replicas acts."""
