"""What people see of worker pools: status, events, metrics."""
