"""What volumes ask of nodes, and how many of them nodes attach."""
