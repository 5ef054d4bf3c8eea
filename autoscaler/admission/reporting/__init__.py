"""What people see of admission: status, events, metrics, and why a job waits. It decides nothing."""
