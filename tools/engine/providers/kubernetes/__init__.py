"""The stand-in for the Kubernetes provider, on the API server of a plane."""
