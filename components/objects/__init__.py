"""What a stack declares in its cluster: definitions, policies and custom resources."""
