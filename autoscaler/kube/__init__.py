"""The API server: a port of two methods, and what stands on it: reflector, store, writer, events, election.

The port has two adapters, the real client here and the simulated cluster in autoscaler.simulation. Nothing above the
port knows which one it runs on.
"""
