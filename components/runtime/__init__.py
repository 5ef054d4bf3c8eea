"""The runtime in a cluster: its image, its rights and its Deployment."""
