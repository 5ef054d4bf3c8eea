"""What all controllers would do now, as the leader tells it."""
