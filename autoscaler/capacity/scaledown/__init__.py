"""From idle, outdated and broken instances to nothing: who goes, why, and how nodes are drained."""
