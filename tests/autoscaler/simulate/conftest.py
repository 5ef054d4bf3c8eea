"""Async tests here run in virtual time."""

from tests.autoscaler.simulation.conftest import pytest_pyfunc_call

__all__ = ["pytest_pyfunc_call"]
