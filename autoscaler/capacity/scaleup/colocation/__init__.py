"""Pods that go to one zone together. Pure."""
