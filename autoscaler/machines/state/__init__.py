"""What is known of machine groups and their nodes, kept current by each change. It decides nothing."""
