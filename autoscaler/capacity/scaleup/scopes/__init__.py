"""How many of a scope's waiting pods start instances in which of its pools. Pure."""
