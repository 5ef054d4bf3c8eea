"""What EC2 offers and costs in a region, read from files that are reviewed like code."""
