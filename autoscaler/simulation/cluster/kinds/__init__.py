"""What the API server does for one built-in kind besides what it does for all."""
