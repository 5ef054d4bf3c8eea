"""Elastic jobs under quota (seed 004)."""
