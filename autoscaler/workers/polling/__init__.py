"""When a pool's queue is asked, and what came of it."""
