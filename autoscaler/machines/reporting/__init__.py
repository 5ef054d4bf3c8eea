"""What people see of machines: status, events, metrics. It decides nothing."""
