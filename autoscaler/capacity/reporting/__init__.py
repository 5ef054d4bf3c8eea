"""What people see of capacity: status, events, and why a pod waits."""
