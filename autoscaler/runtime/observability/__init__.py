"""Logs and metrics of the process."""
