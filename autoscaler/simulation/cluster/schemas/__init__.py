"""What a definition's schema and rules do to a custom object."""
