"""Node pools: from the grid to Auto Scaling groups, and what their instances start with."""
