"""What a stack tells the runtime when it starts: values that both sides read. Pure."""
