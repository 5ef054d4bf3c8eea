"""Amazon EC2 Auto Scaling and the events that tell of its instances."""
