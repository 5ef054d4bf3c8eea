"""The Deployment says everything that the process needs; the config may add to it, but not speak for it."""

import argparse
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from autoscaler.api import controllers, version
from autoscaler.api.resources.pools import CapacityType
from autoscaler.api.settings import sleepers
from autoscaler.api.settings.queue_access import QueueAccess
from autoscaler.api.settings.queued_jobs import QueuedJobs
from autoscaler.api.settings.scaling import Expander, PriceList
from autoscaler.kube.connection import credentials
from autoscaler.runtime import process
from autoscaler.runtime import settings as runtime_settings
from components.config.autoscaler import EnvironmentVariable
from components.runtime import deployment
from tests.components import accesses, places

QUEUE = "https://sqs.eu-west-1.amazonaws.com/123456789012/test-bench"
API_SERVER = "https://0123456789abcdef.gr7.eu-west-1.eks.amazonaws.com"
DIGEST = f"sha256:{'a' * 64}"


PRICES = PriceList(hourly={"c5.large": {CapacityType.SPOT: Decimal("0.0415")}})


def surroundings(**autoscaler: Any) -> deployment.Surroundings:
    return deployment.Surroundings(
        config=accesses.config(autoscaler=autoscaler),
        place=places.place(),
        image="example/sluice:1",
        interruption_queue=QUEUE,
        api_servers=API_SERVER,
        prices=PRICES,
    )


def pod(**autoscaler: Any) -> dict[str, Any]:
    spec: dict[str, Any] = deployment.spec(surroundings(**autoscaler))["template"]["spec"]
    return spec


def container(**autoscaler: Any) -> dict[str, Any]:
    (only,) = pod(**autoscaler)["containers"]
    found: dict[str, Any] = only
    return found


def started(**autoscaler: Any) -> runtime_settings.Settings:
    """Read the settings as the process would in this pod."""
    fields = {"metadata.namespace": "sluice-system", "metadata.name": "sluice-abc"}
    environment = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    for variable in deployment.environment(surroundings(**autoscaler)):
        source = variable.get("valueFrom")
        environment[variable["name"]] = fields[source["fieldRef"]["fieldPath"]] if source else variable["value"]
    parser = argparse.ArgumentParser()
    runtime_settings.add_arguments(parser, tuple(controllers.CONTROLLERS))
    return runtime_settings.read(parser.parse_args([]), tuple(controllers.CONTROLLERS), environment)


def test_the_process_understands_what_its_deployment_tells_it() -> None:
    got = started(identity="prod-us", className="heavy", defaultClass=False, scope="cluster", observe=True)
    assert (got.namespace, got.pod_name, got.identity) == ("sluice-system", "sluice-abc", "prod-us")
    assert (got.class_name, got.default_class, got.scope, got.observe) == ("heavy", False, "cluster", True)
    assert (got.cluster, got.interruption_queue) == (places.CLUSTER, QUEUE)
    assert (got.api_servers, got.allow_loopback_queues) == ((API_SERVER,), False)
    assert (got.aws_endpoint, got.aws_region) == (None, places.place().region)
    assert got.controllers == tuple(controllers.CONTROLLERS)
    assert isinstance(got.origin, credentials.InCluster)
    assert str(got.origin.directory) == deployment.TOKEN_DIRECTORY


@pytest.mark.accept("W26")
def test_what_pools_may_ask_besides_reaches_the_process() -> None:
    given = {"research": {"hosts": ["*.corp.example"], "cidrs": ["10.0.0.0/8"], "namespaces": ["monitoring"]}}
    assert started(queueAccess=given).queue_access == QueueAccess.model_validate(given)
    assert started().queue_access == QueueAccess()


def test_what_is_not_given_is_not_told() -> None:
    around = deployment.Surroundings(config=accesses.config(), place=places.place(), image="i")
    names = {variable["name"] for variable in deployment.environment(around)}
    assert not names & {"SLUICE_INTERRUPTION_QUEUE", "SLUICE_CLASS_NAME", "SLUICE_API_SERVERS"}
    assert "SLUICE_QUEUE_ACCESS" not in names
    got = started()
    assert (got.identity, got.class_name, got.default_class, got.scope) == ("sluice", None, True, "namespace")


def test_ceilings_reach_the_process() -> None:
    got = started(ceilings={"nodes": 50, "cores": 400, "launchesPerMinute": 20}).scaling
    assert (got.nodes, got.cores, got.launches_per_minute) == (50, 400, 20)
    assert started().scaling.nodes is None


@pytest.mark.accept("E12", part="the gate of the stack's file reaches the process")
def test_how_queued_jobs_are_handled_reaches_the_process() -> None:
    given = started(featureGates={"elasticJobs": False}, podsReadyTimeoutMinutes=45).queued_jobs
    assert (given.feature_gates.elastic_jobs, given.pods_ready_timeout_minutes) == (False, 45)
    assert started().queued_jobs == QueuedJobs(pods_ready_timeout_minutes=30)


@pytest.mark.accept("M4", part="the image of sleepers")
def test_the_image_of_sleepers_reaches_the_process() -> None:
    assert started(sleeperImage="mirror.example/pause:3").sleeper_image == "mirror.example/pause:3"
    assert started().sleeper_image == sleepers.IMAGE


def test_prices_and_the_choice_by_them_reach_the_process() -> None:
    assert started().scaling.prices == PRICES
    assert started().scaling.expanders == (Expander.LEAST_WASTE, Expander.BALANCED)
    assert started(expanders=["price", "balanced"]).scaling.expanders == (Expander.PRICE, Expander.BALANCED)


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        ({}, (None,)),
        ({"className": "heavy"}, (None, "heavy")),
        ({"className": "heavy", "defaultClass": False}, ("heavy",)),
    ],
)
def test_the_classes_handled_are_those_of_the_config(fields: dict[str, Any], want: tuple[str | None, ...]) -> None:
    assert deployment.worker_classes(accesses.config(autoscaler=fields).autoscaler) == want


@pytest.mark.accept("G14")
def test_the_capacity_controller_is_off_where_the_upstream_autoscaler_scales() -> None:
    want = tuple(name for name in tuple(controllers.CONTROLLERS) if name != "capacity")
    assert started(nodeScaler="cluster-autoscaler").controllers == want
    assert deployment.controllers(accesses.config(autoscaler={"nodeScaler": "cluster-autoscaler"}).autoscaler) == want


def test_the_token_is_mounted_where_the_process_looks_for_it() -> None:
    spec = pod()
    assert spec["automountServiceAccountToken"] is False
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    mounts = {mount["mountPath"]: mount["name"] for mount in container()["volumeMounts"]}
    sources = volumes[mounts[deployment.TOKEN_DIRECTORY]]["projected"]["sources"]
    assert [next(iter(source)) for source in sources] == ["serviceAccountToken", "configMap", "downwardAPI"]
    assert volumes[mounts[deployment.SCRATCH]]["emptyDir"] == {}


@pytest.mark.accept("G18")
def test_the_runtime_runs_on_services_nodes_and_is_spread() -> None:
    spec = pod()
    assert spec["nodeSelector"] == {"node.type": "k8s-services"}
    spread = {one["topologyKey"]: one["whenUnsatisfiable"] for one in spec["topologySpreadConstraints"]}
    assert spread == {"topology.kubernetes.io/zone": "ScheduleAnyway", "kubernetes.io/hostname": "ScheduleAnyway"}


@pytest.mark.accept("S16", part="priority class and toleration of the runtime")
def test_the_runtime_comes_before_users_pods_and_tolerates_the_services_taint() -> None:
    spec = pod(pod={"tolerations": [{"key": "mine", "operator": "Exists"}]})
    assert spec["priorityClassName"] == "system-cluster-critical"
    tolerated = [one["key"] for one in spec["tolerations"] if one["operator"] == "Exists" and "effect" not in one]
    assert tolerated == ["CriticalAddonsOnly", "mine"]
    assert pod(pod={"priorityClassName": "platform"})["priorityClassName"] == "platform"


def test_memory_is_limited_to_twice_what_ten_thousand_nodes_take() -> None:
    measured_mib = 583_000_000 / 2**20  # docs/performance.md: resident at 10,000 nodes and 100,000 pods
    limit = container()["resources"]["limits"]["memory"]
    assert limit.endswith("Mi")
    assert int(limit.removesuffix("Mi")) >= 2 * measured_mib


def test_nothing_may_be_gained_in_the_container() -> None:
    spec, only = pod(), container()
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert only["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }


def test_health_is_asked_where_it_is_served() -> None:
    only = container()
    assert only["ports"] == [{"name": "http", "containerPort": 8080, "protocol": "TCP"}]
    assert only["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "http"}
    assert only["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "http"}


def test_the_process_has_time_to_end() -> None:
    leases = 3
    longest = process.GRACE_SECONDS * (1 + 0.5 + 0.5 * leases) + 10 + 1
    assert pod()["terminationGracePeriodSeconds"] > longest


@pytest.mark.accept("S7")
def test_the_version_is_stamped_on_the_deployment_and_its_pods() -> None:
    around = surroundings()
    assert deployment.metadata(around.autoscaler)["labels"]["sluice.dev/version"] == version.VERSION
    assert deployment.spec(around)["template"]["metadata"]["labels"]["sluice.dev/version"] == version.VERSION


def test_objects_say_what_they_are_part_of_by_the_usual_labels() -> None:
    around = surroundings()
    usual = {"part-of": "sluice", "managed-by": "pulumi", "component": "autoscaler", "version": version.VERSION}
    want = {f"app.kubernetes.io/{name}": value for name, value in usual.items()}
    assert deployment.metadata(around.autoscaler)["labels"].items() >= want.items()
    assert not want.keys() & deployment.spec(around)["selector"]["matchLabels"].keys()


def test_the_selector_never_changes_with_the_version_or_the_users_labels() -> None:
    around = surroundings(pod={"labels": {"app.kubernetes.io/name": "mine", "team": "blue"}})
    spec = deployment.spec(around)
    labels = spec["template"]["metadata"]["labels"]
    want = {"app.kubernetes.io/name": "sluice", "app.kubernetes.io/instance": "sluice"}
    assert spec["selector"]["matchLabels"] == want
    assert {**labels, **want} == labels
    assert labels["team"] == "blue"


@pytest.mark.accept("G14")
def test_no_variable_of_the_config_takes_the_place_of_ours() -> None:
    around = surroundings(nodeScaler="cluster-autoscaler")
    ours = deployment.environment(around)
    forged = tuple(EnvironmentVariable(name=one["name"], value="*") for one in ours)
    theirs = EnvironmentVariable.model_validate({"name": "A", "valueFrom": {"x": "y"}})
    assert deployment.environment(_with_env(around, (theirs, *forged))) == [
        {"name": "A", "valueFrom": {"x": "y"}},
        *ours,
    ]


def _with_env(around: deployment.Surroundings, env: tuple[EnvironmentVariable, ...]) -> deployment.Surroundings:
    """Give the container variables that reading the config would refuse."""
    box = around.autoscaler.container.model_copy(update={"env": env})
    autoscaler = around.autoscaler.model_copy(update={"container": box})
    return replace(around, config=around.config.model_copy(update={"autoscaler": autoscaler}))


def test_a_volume_or_mount_of_the_config_takes_the_place_of_ours() -> None:
    given = {
        "container": {"volumeMounts": [{"name": "big", "mountPath": deployment.SCRATCH}]},
        "pod": {"volumes": [{"name": "sluice-tmp", "emptyDir": {"sizeLimit": "9Gi"}}]},
    }
    only = container(**given)
    assert {"name": "sluice-tmp", "emptyDir": {"sizeLimit": "9Gi"}} in pod(**given)["volumes"]
    assert {"name": "big", "mountPath": deployment.SCRATCH} in only["volumeMounts"]
    paths = [mount["mountPath"] for mount in only["volumeMounts"]]
    assert len(paths) == len(set(paths))


def test_a_single_replica_has_no_budget() -> None:
    assert deployment.disruption_budget(accesses.config(autoscaler={"replicas": 1}).autoscaler) is None
    budget = deployment.disruption_budget(accesses.config().autoscaler)
    assert budget is not None
    assert budget["maxUnavailable"] == 1


def test_only_the_port_is_open_to_others_and_everything_is_open_to_the_runtime() -> None:
    policy = deployment.network_policy(accesses.config().autoscaler)
    assert policy["policyTypes"] == ["Ingress"]
    assert policy["ingress"] == [{"ports": [{"port": 8080, "protocol": "TCP"}]}]


@pytest.mark.accept("W1", part="when the image is pulled, where the config does not say")
@pytest.mark.parametrize(
    ("image", "want"),
    [
        ({}, "IfNotPresent"),  # built here, and named by its digest
        ({"repository": "quay.io/a/b"}, "Always"),
        ({"repository": "quay.io/a/b", "tag": "v7"}, "Always"),
        ({"repository": "quay.io/a/b", "digest": DIGEST}, "IfNotPresent"),
        ({"repository": "b", "pullPolicy": "Never"}, "Never"),
    ],
)
def test_an_image_is_pulled_again_only_where_a_push_could_change_it(image: dict[str, str], want: str) -> None:
    assert container(container={"image": image})["imagePullPolicy"] == want


def test_the_image_is_the_one_given() -> None:
    assert container()["image"] == "example/sluice:1"
