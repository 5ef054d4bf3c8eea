"""Measurements, one JSON line each, always beside a peer or a bare call of the same run. `make bench` runs them."""
