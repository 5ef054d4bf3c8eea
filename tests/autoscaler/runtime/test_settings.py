"""A wrong start is refused as a whole, with everything that is wrong."""

import argparse
import socket
from decimal import Decimal
from pathlib import Path

import pytest

from autoscaler.api import permissions
from autoscaler.api.resources.pools import CapacityType
from autoscaler.api.settings import sleepers
from autoscaler.api.settings.queued_jobs import FeatureGates, QueuedJobs
from autoscaler.api.settings.scaling import Expander, PriceList, Scaling
from autoscaler.kube.connection import credentials
from autoscaler.runtime import settings

KNOWN = ("workers", "machines")
OUTSIDE = {"KUBECONFIG": "config", "SLUICE_NAMESPACE": "sluice-system"}


def read(
    *arguments: str, environment: dict[str, str] | None = None, known: tuple[str, ...] = KNOWN
) -> settings.Settings:
    parser = argparse.ArgumentParser()
    settings.add_arguments(parser, known)
    return settings.read(parser.parse_args(arguments), known, OUTSIDE if environment is None else environment)


def complaint(*arguments: str, **environment: str) -> str:
    with pytest.raises(settings.SettingsError) as refusal:
        read(*arguments, environment={**OUTSIDE, **environment})
    return str(refusal.value)


def test_sensible_defaults() -> None:
    got = read()
    assert got.controllers == KNOWN
    assert (got.listen, got.log_level, got.observe) == (("0.0.0.0", 8080), "info", False)  # noqa: S104
    assert got.origin == credentials.KubeConfig(path=Path("config"))
    assert (got.identity, got.pod_name) == (socket.gethostname(), socket.gethostname())
    assert (got.class_name, got.default_class, got.scope) == (None, True, permissions.WorkerScope.NAMESPACE)
    assert (got.cluster, got.interruption_queue) == (None, None)
    assert (got.api_servers, got.allow_loopback_queues) == ((), False)
    assert (got.aws_endpoint, got.aws_region) == (None, None)
    assert got.scaling == Scaling()


def test_a_flag_wins_over_its_variable() -> None:
    environment = {**OUTSIDE, "SLUICE_CONTROLLERS": "workers", "SLUICE_OBSERVE": "true", "SLUICE_LEASE_SECONDS": "30"}
    got = read("--controllers", "machines", environment=environment)
    assert got.controllers == ("machines",)
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


@pytest.mark.parametrize(
    ("asked", "want"),
    [
        ("*", KNOWN),
        ("*,-machines", ("workers",)),
        ("*, -capacity", KNOWN),
        ("machines", ("machines",)),
        ("machines,workers", KNOWN),
        ("*,workers", KNOWN),
        ("-workers,*,-machines", ()),
    ],
)
def test_controllers_are_chosen_by_name_by_star_and_by_minus(asked: str, want: tuple[str, ...]) -> None:
    assert read(environment={**OUTSIDE, "SLUICE_CONTROLLERS": asked}).controllers == want


@pytest.mark.accept("G14")
def test_a_controller_of_another_version_can_be_left_out_but_not_chosen() -> None:
    assert read("--controllers", "*,-capacity", known=()).controllers == ()
    assert "capacity" in complaint("--controllers", "capacity")


@pytest.mark.parametrize("asked", ["-machines", "*,-pumps", "*,pumps", "machines,-machines", ",", "*,--machines"])
def test_a_choice_of_controllers_that_makes_no_sense_is_refused(asked: str) -> None:
    assert complaint(f"--controllers={asked}").startswith("--controllers or SLUICE_CONTROLLERS:")


def test_everything_that_a_deployment_tells_arrives() -> None:
    environment = {
        **OUTSIDE,
        "SLUICE_IDENTITY": "prod-us",
        "SLUICE_POD_NAME": "sluice-7d9f-x2x",
        "SLUICE_CLASS_NAME": "heavy",
        "SLUICE_DEFAULT_CLASS": "false",
        "SLUICE_SCOPE": "cluster",
        "SLUICE_CLUSTER": "prod-bench",
        "SLUICE_INTERRUPTION_QUEUE": "https://sqs.eu-west-1.amazonaws.com/123456789012/prod-bench",
        "SLUICE_API_SERVERS": "https://api.example:6443, https://[fd00::1], ",
        "SLUICE_ALLOW_LOOPBACK_QUEUES": "true",
        "SLUICE_QUEUE_ACCESS": '{"jobs": {"cidrs": ["10.0.0.0/8"]}}',
        "AWS_ENDPOINT_URL": "http://127.0.0.1:5000",
        "AWS_REGION": "eu-west-1",
    }
    got = read(environment=environment)
    assert (got.identity, got.pod_name, got.class_name) == ("prod-us", "sluice-7d9f-x2x", "heavy")
    assert (got.default_class, got.scope) == (False, permissions.WorkerScope.CLUSTER)
    assert got.cluster == "prod-bench"
    assert got.interruption_queue == environment["SLUICE_INTERRUPTION_QUEUE"]
    assert got.api_servers == ("https://api.example:6443", "https://[fd00::1]")
    assert got.allow_loopback_queues
    assert got.queue_access.root["jobs"].cidrs == ("10.0.0.0/8",)
    assert (got.aws_endpoint, got.aws_region) == ("http://127.0.0.1:5000", "eu-west-1")


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("{", "'{': Invalid JSON"),
        ('{"jobs": {"cidrs": ["10.0.0.5"]}}', "jobs.cidrs.0: '10.0.0.5': must be a block"),
        ('{"Jobs": {}}', "Jobs.[key]: 'Jobs': String should match"),
    ],
)
def test_access_to_queues_that_makes_no_sense_is_refused(text: str, want: str) -> None:
    assert complaint("--queue-access", text).startswith(f"--queue-access or SLUICE_QUEUE_ACCESS: {want}")


def test_queues_on_this_computer_and_api_servers_have_flags() -> None:
    got = read("--allow-loopback-queues", "--api-servers", "https://a.example,https://b.example")
    assert got.allow_loopback_queues
    assert got.api_servers == ("https://a.example", "https://b.example")


@pytest.mark.parametrize("name", ["Heavy", "a_b", "a..b", "-a", "a\n", "a" * 254])
def test_a_class_that_no_pool_can_name_is_refused(name: str) -> None:
    assert f"--class-name or SLUICE_CLASS_NAME: {name!r}: String should" in complaint(f"--class-name={name}")


@pytest.mark.parametrize("name", ["heavy", "heavy.batch", "a" * 253])
def test_a_class_that_a_pool_can_name_is_taken(name: str) -> None:
    assert read("--class-name", name).class_name == name


@pytest.mark.parametrize(
    "url", ["api.example", "ftp://api.example", "https://", "https://a:x", "https://a:0", "https://a b", "https://[x"]
)
def test_a_server_that_has_no_url_is_refused(url: str) -> None:
    assert complaint("--api-servers", f"https://ok.example,{url}").startswith(
        f"--api-servers or SLUICE_API_SERVERS: 1: {url!r}: "
    )
    assert complaint(AWS_ENDPOINT_URL=url).startswith(f"AWS_ENDPOINT_URL: {url!r}: ")


@pytest.mark.accept("W3")
def test_a_scope_that_is_neither_namespace_nor_cluster_is_refused() -> None:
    want = "--scope or SLUICE_SCOPE: 'everywhere': Input should be 'namespace' or 'cluster'"
    assert complaint("--scope", "everywhere") == want


def test_a_flag_wins_over_a_variable_for_yes_and_no() -> None:
    assert (
        read(
            "--no-default-class", "--class-name", "a", environment={**OUTSIDE, "SLUICE_DEFAULT_CLASS": "true"}
        ).default_class
        is False
    )
    assert read("--default-class", environment={**OUTSIDE, "SLUICE_DEFAULT_CLASS": "false"}).default_class is True


@pytest.mark.parametrize(
    ("variable", "value", "want"),
    [
        ("SLUICE_CLUSTER", "a/b", "--cluster or SLUICE_CLUSTER: 'a/b': String should match"),
        ("SLUICE_INTERRUPTION_QUEUE", "prod", "'prod': String should match"),
        ("SLUICE_DEFAULT_CLASS", "perhaps", "SLUICE_DEFAULT_CLASS: 'perhaps': Input should be a valid boolean"),
        ("SLUICE_LISTEN", "localhost:65536", "--listen or SLUICE_LISTEN: 1: '65536': Input should be less than"),
        ("SLUICE_SCALING", "free", "--scaling or SLUICE_SCALING: 'free': Invalid JSON"),
        ("SLUICE_SCALING", '{"nodes": -1}', "nodes: -1: Input should be greater than or equal to 0"),
        ("SLUICE_SCALING", '{"expanders": ["cheapest"]}', "expanders.0: 'cheapest': Input should be 'least-waste'"),
        ("SLUICE_SCALING", '{"prices": {"hourly": {"m5.large": {"spot": "0"}}}}', "prices.hourly.m5.large.spot: '0': "),
        ("SLUICE_QUEUED_JOBS", '{"podsReadyTimeoutMinutes": 0}', "podsReadyTimeoutMinutes: 0: Input should be"),
        ("SLUICE_QUEUED_JOBS", '{"podsReadyTimeoutMinutes": 10081}', "podsReadyTimeoutMinutes: 10081: Input should be"),
    ],
)
def test_a_value_that_cannot_be_is_named(variable: str, value: str, want: str) -> None:
    assert want in complaint(**{variable: value})


def test_an_operator_that_would_handle_no_pool_is_refused() -> None:
    assert "--class-name: must be given" in complaint("--no-default-class")


@pytest.mark.accept("E12", part="the gate is on unless somebody says otherwise")
def test_how_queued_jobs_are_handled_is_read() -> None:
    assert read().queued_jobs == QueuedJobs(feature_gates=FeatureGates(elastic_jobs=True))
    got = read("--queued-jobs", '{"featureGates": {"elasticJobs": false}, "podsReadyTimeoutMinutes": 45}')
    assert got.queued_jobs == QueuedJobs(feature_gates=FeatureGates(elastic_jobs=False), pods_ready_timeout_minutes=45)


@pytest.mark.accept("M4", part="the image of sleepers")
def test_the_image_of_sleepers_is_read() -> None:
    assert read().sleeper_image == sleepers.IMAGE
    assert read("--sleeper-image", "mirror.example/pause@sha256:0a").sleeper_image == "mirror.example/pause@sha256:0a"
    assert "--sleeper-image or SLUICE_SLEEPER_IMAGE: 'a b': String should" in complaint("--sleeper-image", "a b")


def test_how_nodes_are_scaled_is_read() -> None:
    hourly = {"m5.large": {CapacityType.SPOT: Decimal("0.031")}}
    want = Scaling(nodes=50, expanders=(Expander.PRICE,), prices=PriceList(hourly=hourly))
    assert read("--scaling", want.to_json()).scaling == want
