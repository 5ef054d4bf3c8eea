"""How objects and events are written: fenced, bounded, with preconditions."""
