"""A wrong start is refused as a whole, with everything that is wrong."""

import argparse
from pathlib import Path

import pytest

from autoscaler.kube import credentials
from autoscaler.runtime import settings

KNOWN = ("workers", "capacity")
OUTSIDE = {"KUBECONFIG": "config", "SLUICE_NAMESPACE": "sluice-system"}


def read(*arguments: str, environment: dict[str, str] | None = None) -> settings.Settings:
    parser = argparse.ArgumentParser()
    settings.add_arguments(parser, KNOWN)
    return settings.read(parser.parse_args(arguments), KNOWN, OUTSIDE if environment is None else environment)


def test_sensible_defaults() -> None:
    got = read()
    assert got.controllers == KNOWN
    assert (got.listen_host, got.listen_port, got.log_level, got.observe) == ("0.0.0.0", 8080, "info", False)  # noqa: S104
    assert got.origin == credentials.KubeConfig(path=Path("config"))


def test_a_flag_wins_over_its_variable() -> None:
    environment = {**OUTSIDE, "SLUICE_CONTROLLERS": "workers", "SLUICE_OBSERVE": "true", "SLUICE_LEASE_SECONDS": "30"}
    got = read("--controllers", "capacity", environment=environment)
    assert got.controllers == ("capacity",)
    assert got.observe
    assert got.terms.lease_seconds == 30


def test_in_a_pod_its_own_account_is_used() -> None:
    environment = {
        "SLUICE_NAMESPACE": "s",
        "KUBERNETES_SERVICE_HOST": "10.0.0.1",
        "KUBERNETES_SERVICE_PORT": "6443",
        "SLUICE_TOKEN_DIRECTORY": "tokens",
    }
    want = credentials.InCluster(host="10.0.0.1", port=6443, directory=Path("tokens"))
    assert read(environment=environment).origin == want


def test_everything_that_is_wrong_is_told_at_once() -> None:
    arguments = ("--controllers", "workers,pumps", "--listen", "8080", "--log-level", "loud", "--lease-seconds", "1")
    with pytest.raises(settings.SettingsError) as refusal:
        read(*arguments, environment={"SLUICE_OBSERVE": "maybe"})
    lines = str(refusal.value).splitlines()
    told = ("SLUICE_NAMESPACE", "pumps", "--listen", "loud", "--lease-seconds", "SLUICE_OBSERVE", "--kubeconfig")
    assert len(lines) == len(told)
    assert all(any(word in line for line in lines) for word in told)
