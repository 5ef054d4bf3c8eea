"""What is known of jobs, pods and queues, kept current by each change. It decides nothing."""
