"""Who may do what, in AWS and in Kubernetes."""
