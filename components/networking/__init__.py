"""Where nodes live: networks and subnets."""
