"""Stand-in providers: what the engine talks to instead of AWS, Kubernetes and Docker providers. Test tooling only."""
