"""Policies about Machines and their guests. Pure."""
