"""What runs under which settings, and under which Leases."""

import argparse

import pytest

from autoscaler.runtime import controllers, settings


def chosen(*flags: str) -> settings.Settings:
    parser = argparse.ArgumentParser()
    settings.add_arguments(parser, settings.CONTROLLERS)
    given = ["--namespace", "sluice-system", "--kubeconfig", "config", *flags]
    return settings.read(parser.parse_args(given), settings.CONTROLLERS, {})


@pytest.mark.parametrize(
    ("flags", "want"),
    [
        ([], {"workers": ("sluice-workers", None)}),
        (["--scope", "cluster"], {"workers": ("sluice-workers", "kube-system")}),
        (
            ["--class-name", "heavy"],
            {"workers": ("sluice-workers", None), "workers heavy": ("sluice-workers.heavy", None)},
        ),
        (["--class-name", "heavy", "--no-default-class"], {"workers heavy": ("sluice-workers.heavy", None)}),
        (
            ["--cluster", "prod"],
            {"workers": ("sluice-workers", None), "capacity": ("sluice", "kube-system")},
        ),
        (["--cluster", "prod", "--controllers", "capacity"], {"capacity": ("sluice", "kube-system")}),
    ],
)
def test_each_part_has_its_lease(flags: list[str], want: dict[str, tuple[str, str | None]]) -> None:
    made = controllers.registrations(chosen(*flags))
    assert {name: (each.lease, each.lease_namespace) for name, each in made.items()} == want


def test_every_controller_that_can_be_asked_for_is_there() -> None:
    for name in settings.CONTROLLERS:
        assert controllers.registrations(chosen("--cluster", "prod", "--controllers", name))
