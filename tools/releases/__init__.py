"""What earlier releases left in clusters and states, kept as files, so that tests upgrade from it."""
