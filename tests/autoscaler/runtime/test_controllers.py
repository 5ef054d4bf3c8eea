"""What runs under which settings, under which Leases, and whom worker pools may then ask."""

import argparse
import asyncio
import contextlib
import dataclasses
import json
import sys
import types
from typing import Any, cast

import pytest

from autoscaler import control
from autoscaler.api import controllers as registered
from autoscaler.api.resources.worker_pools import QueueSource
from autoscaler.api.settings import sleepers
from autoscaler.kube import store
from autoscaler.options import Options
from autoscaler.queues import port
from autoscaler.runtime import controllers, settings


def chosen(*flags: str) -> settings.Settings:
    parser = argparse.ArgumentParser()
    settings.add_arguments(parser, settings.CONTROLLERS)
    given = ["--namespace", "sluice-system", "--kubeconfig", "config", *flags]
    return settings.read(parser.parse_args(given), settings.CONTROLLERS, {})


CLUSTER_LEASE = ("sluice", "kube-system")
JOBS_AND_MACHINES = {"admission": CLUSTER_LEASE, "machines": CLUSTER_LEASE}


@pytest.mark.parametrize(
    ("flags", "want"),
    [
        ([], {"workers": ("sluice-workers", None), **JOBS_AND_MACHINES}),
        (["--scope", "cluster"], {"workers": ("sluice-workers", "kube-system"), **JOBS_AND_MACHINES}),
        (
            ["--class-name", "heavy", "--controllers", "workers"],
            {"workers": ("sluice-workers", None), "workers heavy": ("sluice-workers.heavy", None)},
        ),
        (
            ["--class-name", "heavy", "--no-default-class", "--controllers", "*,-admission,-machines"],
            {"workers heavy": ("sluice-workers.heavy", None)},
        ),
        (
            ["--cluster", "prod"],
            {"workers": ("sluice-workers", None), **JOBS_AND_MACHINES, "capacity": CLUSTER_LEASE},
        ),
        (["--cluster", "prod", "--controllers", "capacity"], {"capacity": CLUSTER_LEASE}),
    ],
)
def test_each_part_has_its_lease(flags: list[str], want: dict[str, tuple[str, str | None]]) -> None:
    made = controllers.registrations(chosen(*flags))
    assert {name: (each.lease, each.lease_namespace) for name, each in made.items()} == want


def test_every_controller_that_can_be_asked_for_is_there() -> None:
    for name in settings.CONTROLLERS:
        assert controllers.registrations(chosen("--cluster", "prod", "--controllers", name))


@pytest.mark.accept("M4", part="the image of sleepers")
@pytest.mark.parametrize(
    ("flags", "want"),
    [
        ([], (True, 1800.0, sleepers.IMAGE)),
        (
            [
                "--queued-jobs",
                '{"featureGates": {"elasticJobs": false}, "podsReadyTimeoutMinutes": 45}',
                "--sleeper-image",
                "mine:1",
            ],
            (False, 2700.0, "mine:1"),
        ),
    ],
)
def test_how_jobs_and_sleepers_are_handled_reaches_controllers(
    flags: list[str], want: tuple[bool, float, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[Options] = []
    room = types.ModuleType("autoscaler.toy")
    vars(room)["build"] = lambda _, options: built.append(options)
    monkeypatch.setitem(sys.modules, "autoscaler.toy", room)
    toy = registered.Controller(name="toy", kube=())
    monkeypatch.setattr(registered, "CONTROLLERS", {"toy": toy})
    given = chosen(*flags).model_copy(update={"controllers": ("toy",)})
    controllers.registrations(given)["toy"].build(cast("Any", None))
    (options,) = built
    assert (options.elastic_jobs, options.pods_ready_timeout_seconds, options.sleeper_image) == want


def test_the_interruption_queue_is_read_in_the_runtimes_region() -> None:
    queue = "http://127.0.0.1:5000/123456789012/bench"
    given = chosen().model_copy(update={"interruption_queue": queue, "aws_region": "eu-west-1"})

    async def opened() -> str | None:
        opens = controllers.options(given).open_interruptions
        assert opens is not None
        region: str | None = cast("Any", opens())._clients._account.region
        return region

    assert asyncio.run(opened()) == "eu-west-1"
    assert controllers.options(chosen()).open_interruptions is None


API_SERVER = "https://52.9.9.9:443"


def asked(endpoint: str, *flags: str, namespace: str = "jobs") -> port.Reason | None:
    """Let the worker controller ask, as the process puts it together; None: it tried to connect.

    There is no network here, so a name is looked up in vain.
    """
    unused: dict[str, Any] = {each.name: lambda *_: None for each in dataclasses.fields(control.ControllerContext)}
    context = {**unused, "watch": lambda *_: store.Table[Any](), "api_server": API_SERVER}
    build = controllers.registrations(chosen("--controllers", "workers", *flags))["workers"].build
    controller = cast("Any", build(control.ControllerContext(**context)))

    async def ask() -> port.Reason | None:
        async with contextlib.aclosing(controller._open_queues()) as queues:
            source = QueueSource(endpoint=endpoint)
            try:
                await queues.queue(source, namespace=namespace, secret=None).length()
            except port.QueueError as error:
                return error.reason
            except RuntimeError:  # the fast tier has no network
                return None
            raise AssertionError

    return asyncio.run(ask())


REFUSED, NOT_ALLOWED = port.Reason.ENDPOINT_REFUSED, port.Reason.NOT_ALLOWED


@pytest.mark.accept("W22")
@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:1/", "http://[::1]:1/", "http://169.254.169.254/latest"])
def test_a_runtime_lets_no_pool_ask_loopback_and_link_local_addresses(endpoint: str) -> None:
    assert asked(endpoint) is REFUSED


@pytest.mark.accept("W22")
def test_a_runtime_with_the_development_switch_lets_pools_ask_loopback_alone() -> None:
    assert asked("http://127.0.0.1:1/", "--allow-loopback-queues") is None
    assert asked("http://169.254.169.254/latest", "--allow-loopback-queues") is REFUSED
    assert asked("http://10.0.0.5/", "--allow-loopback-queues") is NOT_ALLOWED


@pytest.mark.accept("W22")
def test_a_runtime_lets_no_pool_ask_its_api_server_under_any_address_it_was_told() -> None:
    assert asked("https://52.9.9.9/") is REFUSED
    assert asked("https://52.8.8.8/") is None
    assert asked("https://52.8.8.8/", "--api-servers", "https://52.8.8.8:443,https://52.7.7.7:443") is REFUSED
    assert asked("https://52.7.7.7/", "--api-servers", "https://52.8.8.8:443,https://52.7.7.7:443") is REFUSED
    assert asked("http://127.0.0.1:443/", "--allow-loopback-queues") is REFUSED, "that port is the API server's"


@pytest.mark.accept("W26")
def test_a_runtime_lets_a_pool_ask_what_its_namespace_is_granted_and_no_more() -> None:
    flags = ("--queue-access", json.dumps({"jobs": {"cidrs": ["10.0.0.0/24"], "namespaces": ["monitoring"]}}))
    assert asked("http://10.0.0.5/") is NOT_ALLOWED
    assert asked("http://10.0.0.5/", *flags) is None
    assert asked("http://10.0.1.5/", *flags) is NOT_ALLOWED
    assert asked("http://10.0.0.5/", *flags, namespace="other") is NOT_ALLOWED
    assert asked("http://web.monitoring.svc/") is NOT_ALLOWED
    assert asked("http://web.monitoring.svc/", *flags) is None
    assert asked("http://web.monitoring.svc/", *flags, namespace="other") is NOT_ALLOWED
    assert asked("http://web/") is None
