"""What is done about one job at each stage, from its Workload to its end. Pure."""
