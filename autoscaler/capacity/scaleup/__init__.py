"""From waiting pods to instances: demand, supply, and which nodes take which pods."""
