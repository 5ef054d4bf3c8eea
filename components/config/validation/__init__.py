"""Rules between the parts of a cluster's config. Each yields problems with their paths."""
