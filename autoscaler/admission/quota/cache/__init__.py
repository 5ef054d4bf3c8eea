"""Queues, what is used of their quota, and who waits for it, kept current by each change. Pure."""
