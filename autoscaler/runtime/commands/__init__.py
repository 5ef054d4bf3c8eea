"""What each command of `python -m autoscaler` does on a real cluster."""
