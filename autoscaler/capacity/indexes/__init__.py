"""Pods and nodes as decisions look them up, kept current by each change. They decide nothing."""
