"""Worker pools: the length of a queue becomes worker pods (seed 000)."""
