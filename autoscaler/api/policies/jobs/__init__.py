"""Policies about queued jobs and their Workloads. Pure."""
