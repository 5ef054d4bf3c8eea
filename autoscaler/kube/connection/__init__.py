"""Who we are to the API server, and how it is reached."""
