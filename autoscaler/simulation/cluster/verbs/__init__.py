"""What each verb of the API server does: list, watch, write, delete, evict, scale."""
