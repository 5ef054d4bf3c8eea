"""What others made and a stack may bring: the cluster-autoscaler, and NVIDIA's plugins."""
