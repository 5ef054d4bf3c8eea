"""Everything the runtime needs is there before its pods are, and every chart value has its effect."""

import base64
import functools
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pulumi_kubernetes as k8s
import pytest
from pydantic import BaseModel

from autoscaler.api import crds
from autoscaler.api.permissions import WorkerScope
from components.access import rbac
from components.config.autoscaler import Autoscaler
from components.config.clusters import Cluster
from components.eks import cluster
from components.objects import custom_resources
from components.runtime import runtime
from tests.components import accesses, configs, monitor, places, test_program

SECRET = base64.b64encode(b'{"auths": {"registry.example": {"auth": "very-secret"}}}').decode()
QUEUE = "test-bench-interruptions"


def config(**autoscaler: Any) -> Cluster:
    namespaces: dict[str, Any] = {name: {} for name in autoscaler.get("secretNamespaces", ())}
    fields = configs.cluster(autoscaler=autoscaler, namespaces=namespaces)
    loaded = configs.of_cluster(fields, secrets={"pull": SECRET})
    return loaded.stack.config.clusters["bench"]


def run(chosen: Cluster | None = None, *, access: Callable[[], cluster.Access] = accesses.of_eks) -> monitor.World:
    wanted = chosen or config()

    def program() -> None:
        way = access()
        spaces = custom_resources.Namespaces(
            "n", custom_resources.NamespacesArgs(config=wanted, provider=way.kubernetes)
        )
        definition = k8s.core.v1.ServiceAccount("definition")
        args = runtime.RuntimeArgs(
            config=wanted,
            place=places.place(),
            access=way,
            image="example/sluice:1",
            interruption_queue_url=f"https://sqs.example/{QUEUE}",
            interruption_queue_arn=f"arn:aws:sqs:eu-west-1:123456789012:{QUEUE}",
            namespaces=spaces.by_name,
            after=[definition],
        )
        runtime.Runtime("r", args)

    secrets = {"sluice:secrets": json.dumps({"pull": SECRET})}
    return monitor.run(program, config=secrets, secret_keys=["sluice:secrets"])


def of_runtime(world: monitor.World) -> list[monitor.Made]:
    return [one for one in world.made if one.parent == world.one(":Runtime").urn]


def pod(world: monitor.World) -> dict[str, Any]:
    spec: dict[str, Any] = world.one(":Deployment").inputs["spec"]["template"]["spec"]
    return spec


def container(world: monitor.World) -> dict[str, Any]:
    only: dict[str, Any] = pod(world)["containers"][0]
    return only


def variables(world: monitor.World) -> dict[str, Any]:
    return {one["name"]: one.get("value") for one in container(world)["env"]}


def roles(world: monitor.World) -> set[tuple[str, str, str]]:
    """Kind, namespace and name of all roles and bindings."""
    return {
        (kind_of(one), one.inputs["metadata"].get("namespace", ""), one.inputs["metadata"]["name"])
        for one in world.made
        if "rbac" in one.type
    }


def kind_of(one: monitor.Made) -> str:
    return one.type.rpartition(":")[2]


def account(world: monitor.World) -> dict[str, Any]:
    metadata: dict[str, Any] = world.one(":ServiceAccount", "r").inputs["metadata"]
    return metadata


CHART: list[tuple[str, dict[str, Any], Callable[[monitor.World], Any], Any]] = [
    ("nameOverride", {"nameOverride": "pump"}, lambda w: labels(w)["app.kubernetes.io/name"], "pump"),
    ("nameOverride", {"nameOverride": "pump"}, lambda w: w.one(":Deployment").inputs["metadata"]["name"], "pump"),
    (
        "fullnameOverride",
        {"nameOverride": "pump", "fullnameOverride": "big"},
        lambda w: (w.one(":Deployment").inputs["metadata"]["name"], labels(w)["app.kubernetes.io/name"]),
        ("big", "pump"),
    ),
    (
        "imagePullSecrets",
        {"imagePullSecrets": [{"name": "theirs"}, {"name": "ours", "value": "pull"}]},
        lambda w: pod(w)["imagePullSecrets"],
        [{"name": "theirs"}, {"name": "ours"}],
    ),
    (
        "imagePullSecrets.value",
        {"imagePullSecrets": [{"name": "theirs"}, {"name": "ours", "value": "pull"}]},
        lambda w: [
            (one.inputs["metadata"]["name"], one.inputs["type"], one.inputs["data"]) for one in w.of_type(":Secret")
        ],
        [("ours", "kubernetes.io/dockerconfigjson", {".dockerconfigjson": SECRET})],
    ),
    ("className", {"className": "heavy"}, lambda w: variables(w)["SLUICE_CLASS_NAME"], "heavy"),
    (
        "defaultClass",
        {"className": "heavy", "defaultClass": False},
        lambda w: variables(w)["SLUICE_DEFAULT_CLASS"],
        "false",
    ),
    ("scope", {"scope": "cluster"}, lambda w: variables(w)["SLUICE_SCOPE"], "cluster"),
    ("identity", {"identity": "prod-us"}, lambda w: variables(w)["SLUICE_IDENTITY"], "prod-us"),
    ("observe", {"observe": True}, lambda w: variables(w)["SLUICE_OBSERVE"], "true"),
    (
        "featureGates.elasticJobs",
        {"featureGates": {"elasticJobs": False}},
        lambda w: variables(w)["SLUICE_QUEUED_JOBS"],
        '{"featureGates":{"elasticJobs":false}}',
    ),
    (
        "podsReadyTimeoutMinutes",
        {"podsReadyTimeoutMinutes": 45},
        lambda w: variables(w)["SLUICE_QUEUED_JOBS"],
        '{"podsReadyTimeoutMinutes":45}',
    ),
    (
        "nodeScaler",
        {"nodeScaler": "cluster-autoscaler"},
        lambda w: variables(w)["SLUICE_CONTROLLERS"],
        "workers,admission,machines",
    ),
    ("namespace", {"namespace": "ops"}, lambda w: w.one(":Deployment").inputs["metadata"]["namespace"], "ops"),
    ("replicas", {"replicas": 5}, lambda w: w.one(":Deployment").inputs["spec"]["replicas"], 5),
    (
        "secretNamespaces",
        {"secretNamespaces": ["a", "b"]},
        lambda w: {place for kind, place, name in roles(w) if name == "sluice-secrets" and kind == "Role"},
        {"a", "b"},
    ),
    (
        "serviceAccount.create",
        {"serviceAccount": {"create": False, "name": "theirs"}},
        lambda w: ([one for one in w.of_type(":ServiceAccount") if one.name == "r"], pod(w)["serviceAccountName"]),
        ([], "theirs"),
    ),
    ("serviceAccount.name", {"serviceAccount": {"name": "mine"}}, lambda w: account(w)["name"], "mine"),
    (
        "serviceAccount.annotations",
        {"serviceAccount": {"annotations": {"a": "b"}}},
        lambda w: account(w)["annotations"],
        {"a": "b"},
    ),
    ("serviceAccount.labels", {"serviceAccount": {"labels": {"a": "b"}}}, lambda w: account(w)["labels"]["a"], "b"),
    ("rbac.create", {"rbac": {"create": False}}, roles, set()),
    (
        "rbac.name",
        {"rbac": {"name": "rights"}},
        lambda w: {name.partition("-")[0] for _, _, name in roles(w)},
        {"rights"},
    ),
    ("pod.affinity", {"pod": {"affinity": {"x": "y"}}}, lambda w: pod(w)["affinity"], {"x": "y"}),
    (
        "pod.annotations",
        {"pod": {"annotations": {"a": "b"}}},
        lambda w: w.one(":Deployment").inputs["spec"]["template"]["metadata"]["annotations"]["a"],
        "b",
    ),
    ("pod.labels", {"pod": {"labels": {"a": "b"}}}, lambda w: labels(w)["a"], "b"),
    ("pod.nodeSelector", {"pod": {"nodeSelector": {"a": "b"}}}, lambda w: pod(w)["nodeSelector"], {"a": "b"}),
    ("pod.nodeSelector", {"pod": {"nodeSelector": {}}}, lambda w: pod(w)["nodeSelector"], {}),
    (
        "pod.securityContext",
        {"pod": {"securityContext": {"fsGroup": 7}}},
        lambda w: pod(w)["securityContext"],
        {"fsGroup": 7},
    ),
    (
        "pod.tolerations",
        {"pod": {"tolerations": [{"key": "k", "operator": "Exists"}]}},
        lambda w: pod(w)["tolerations"],
        [{"key": "CriticalAddonsOnly", "operator": "Exists"}, {"key": "k", "operator": "Exists"}],
    ),
    (
        "pod.priorityClassName",
        {"pod": {"priorityClassName": "platform"}},
        lambda w: pod(w)["priorityClassName"],
        "platform",
    ),
    (
        "pod.volumes",
        {"pod": {"volumes": [{"name": "v", "emptyDir": {}}]}},
        lambda w: pod(w)["volumes"][-1],
        {"name": "v", "emptyDir": {}},
    ),
    (
        "container.env",
        {"container": {"env": [{"name": "HTTPS_PROXY", "value": "http://proxy"}]}},
        lambda w: variables(w)["HTTPS_PROXY"],
        "http://proxy",
    ),
    (
        "container.envFrom",
        {"container": {"envFrom": [{"configMapRef": {"name": "more"}}]}},
        lambda w: container(w)["envFrom"],
        [{"configMapRef": {"name": "more"}}],
    ),
    (
        "container.image.pullPolicy",
        {"container": {"image": {"pullPolicy": "Never"}}},
        lambda w: container(w)["imagePullPolicy"],
        "Never",
    ),
    (
        "container.resources",
        {"container": {"resources": {"requests": {"cpu": "1"}}}},
        lambda w: container(w)["resources"],
        {"requests": {"cpu": "1"}},
    ),
    (
        "container.securityContext",
        {"container": {"securityContext": {"privileged": False}}},
        lambda w: container(w)["securityContext"],
        {"privileged": False},
    ),
    (
        "container.volumeMounts",
        {"container": {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}},
        lambda w: container(w)["volumeMounts"][-1],
        {"name": "v", "mountPath": "/v"},
    ),
]
OUTSIDE = {
    "container": {"image": {"repository": "registry.example:5000/ours", "tag": "v7", "pullPolicy": "IfNotPresent"}},
    "crds": {"installWorkerPool": False},
}
"""Values that act outside of the runtime's component or across it: the whole program is run with them."""
WHOLE: list[tuple[str, Callable[[monitor.World], Any], Any]] = [
    (
        "container.image.repository",
        lambda w: container(w)["image"].rpartition(":")[0],
        "registry.example:5000/ours",
    ),
    ("container.image.tag", lambda w: container(w)["image"].rpartition(":")[2], "v7"),
    ("container.image.pullPolicy", lambda w: container(w)["imagePullPolicy"], "IfNotPresent"),
    (
        "crds.installWorkerPool",
        lambda w: {one.inputs["spec"]["names"]["kind"] for one in w.of_type(":CustomResourceDefinition")},
        set(crds.names()) - {"WorkerPool"},
    ),
]
ELSEWHERE = {
    "container.image.digest",  # test_image.py
    "ceilings.nodes",
    "ceilings.cores",
    "ceilings.launchesPerMinute",
    "expanders",
    "queueAccess",
    "sleeperImage",  # test_deployment.py
    "deployers.users",  # test_admission_policies.py
    "deployers.groups",
}


def labels(world: monitor.World) -> dict[str, str]:
    found: dict[str, str] = world.one(":Deployment").inputs["spec"]["template"]["metadata"]["labels"]
    return found


@pytest.mark.accept("W1")
@pytest.mark.parametrize(
    ("value", "given", "look", "want"),
    [*CHART, *((value, OUTSIDE, look, want) for value, look, want in WHOLE)],
    ids=[*(f"{row[0]}={json.dumps(row[1])}" for row in CHART), *(f"{row[0]} as a whole" for row in WHOLE)],
)
def test_every_chart_value_has_its_effect(
    value: str, given: dict[str, Any], look: Callable[[monitor.World], Any], want: object
) -> None:
    make = whole if given is OUTSIDE else part
    assert look(make(json.dumps(given))) == want, value
    other = {"container": {"image": {"repository": "registry.example/other"}}} if given is OUTSIDE else {}
    assert seen(make(json.dumps(other)), look) != want, f"{value} was so before"


@functools.cache
def part(autoscaler: str) -> monitor.World:
    """Make the runtime alone."""
    return run(config(**json.loads(autoscaler)))


@functools.cache
def whole(autoscaler: str) -> monitor.World:
    """Run the program, for a cluster that is there."""
    sluice = configs.values(clusters={"bench": configs.existing(autoscaler=json.loads(autoscaler))})
    return test_program.evaluate(
        {"aws:region": configs.REGION, **{f"sluice:{key}": value for key, value in sluice.items()}}
    )


def seen(world: monitor.World, look: Callable[[monitor.World], Any]) -> object:
    try:
        return look(world)
    except KeyError:
        return None


def test_no_value_is_forgotten() -> None:
    rows = {row[0] for row in (*CHART, *WHOLE)} - {"imagePullSecrets.value"}
    assert rows | ELSEWHERE == set(leaves(Autoscaler))


def leaves(model: type[BaseModel], path: str = "") -> Iterator[str]:
    for field in model.model_fields.values():
        here = f"{path}{field.alias}"
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from leaves(inner, f"{here}.")
        else:
            yield here


@pytest.mark.accept("S10")
def test_a_pull_secret_is_secret_wherever_it_goes() -> None:
    world = run(config(imagePullSecrets=[{"name": "ours", "value": "pull"}]))
    made = world.one(":Secret")
    assert made.inputs["type"] == "kubernetes.io/dockerconfigjson"
    assert "data" in made.secret_inputs
    assert SECRET not in world.text()
    assert world.one(":Deployment").waits_for(made)


def test_everything_is_the_runtimes_and_in_its_cluster() -> None:
    world = run()
    made = [one for one in of_runtime(world) if one.custom]
    want = sorted(
        [
            "Namespace", "ServiceAccount", "NetworkPolicy", "Deployment", "PodDisruptionBudget", "Service",
            "ClusterRole", "ClusterRole", "ClusterRole", "ClusterRole", "ClusterRole", "ClusterRoleBinding",
            "Role", "Role", "Role", "Role", "RoleBinding", "RoleBinding", "RoleBinding",
            "PriorityLevelConfiguration", "FlowSchema",
        ]
    )  # fmt: skip
    assert sorted(kind_of(one) for one in made) == want
    kubernetes = world.one(":Deployment").provider
    assert {one.provider for one in made} == {kubernetes}
    assert "definitions" not in kubernetes


def test_pods_start_when_all_rights_are_in_place() -> None:
    world = run()
    deployment = world.one(":Deployment")
    for one in of_runtime(world):
        if "rbac" in one.type or kind_of(one) in {"Namespace", "ServiceAccount"}:
            assert deployment.waits_for(one), one.urn
    for one in (*world.of_type(":PodIdentityAssociation"), *world.of_type(":RolePolicy")):
        assert deployment.waits_for(one)
    assert deployment.waits_for(world.one(":ServiceAccount", "definition"))
    assert deployment.ignore_changes == ()


def test_what_lives_in_a_namespace_waits_for_it() -> None:
    world = run(config(secretNamespaces=["lab", "sluice-system"]))
    own = world.one(":Namespace", "r")
    for one in of_runtime(world):
        if one.inputs.get("metadata", {}).get("namespace") == "sluice-system" and kind_of(one) != "RoleBinding":
            assert one.waits_for(own), one.urn
    assert world.one(":Role", "r.lab/sluice-secrets").waits_for(world.one(":Namespace", "n.lab"))


def test_a_namespace_that_the_stack_does_not_know_is_not_waited_for() -> None:
    fields = configs.existing(autoscaler={"secretNamespaces": ["theirs"]})
    world = run(configs.of_cluster(fields).stack.config.clusters["bench"])
    assert world.of_type(":NamespacePatch") == []
    assert world.one(":Role", "r.theirs/sluice-secrets").inputs["metadata"]["namespace"] == "theirs"


@pytest.mark.accept("W3", "S6")
@pytest.mark.parametrize("scope", ["namespace", "cluster"])
def test_worker_pools_are_handled_in_the_namespace_by_a_role_or_everywhere_by_a_cluster_role(scope: str) -> None:
    chosen = config(scope=scope)
    world = run(chosen)
    want = rbac.runtime_roles(
        ("workers", "admission", "machines", "capacity"), scope=WorkerScope(scope), classes=[None]
    )
    assert world.one(":ClusterRole", "r").inputs["rules"] == list(want.cluster)
    assert world.one(":Role", "r.sluice-system/sluice").inputs["rules"] == list(want.own_namespace)
    assert world.one(":Role", "r.kube-system/sluice").inputs["rules"] == list(want.kube_system)
    assert world.one(":Role", "r.sluice-system/sluice-secrets").inputs["rules"] == list(want.secret_namespaces)
    text = json.dumps(world.one(":ClusterRole", "r").inputs["rules"])
    assert ("workerpools" in text) == (scope == "cluster")
    assert "instancepools" in text


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        ({"scope": "cluster"}, {"sluice-workers"}),
        ({"scope": "cluster", "className": "heavy"}, {"sluice-workers", "sluice-workers.heavy"}),
        ({"scope": "cluster", "className": "heavy", "defaultClass": False}, {"sluice-workers.heavy"}),
        ({"scope": "namespace", "className": "heavy"}, set()),
    ],
)
def test_in_kube_system_only_the_leases_of_the_operators_classes_are_its_own(
    fields: dict[str, Any], want: set[str]
) -> None:
    rules = run(config(**fields)).one(":Role", "r.kube-system/sluice").inputs["rules"]
    named = {name for rule in rules for name in rule.get("resourceNames", ())}
    assert named == {"sluice", *want}
    unnamed = [["create", "get"]] if fields["scope"] == "cluster" else [["create"]]
    assert [rule["verbs"] for rule in rules if "resourceNames" not in rule] == unnamed


@pytest.mark.accept("W22")
def test_the_runtime_knows_its_clusters_own_endpoint_where_the_stack_does() -> None:
    def known() -> cluster.Access:
        urls = ["https://api.example:6443", "", "https://10.0.0.1", "https://api.example:6443"]
        return replace(accesses.of_eks(), api_servers=urls)

    assert variables(run(access=known))["SLUICE_API_SERVERS"] == "https://api.example:6443,https://10.0.0.1"
    assert "SLUICE_API_SERVERS" not in variables(run())


def test_every_binding_binds_the_runtimes_account_to_its_own_role() -> None:
    world = run(config(serviceAccount={"name": "mine"}))
    bindings = [one for one in of_runtime(world) if kind_of(one).endswith("Binding")]
    assert len(bindings) == 4
    for one in bindings:
        assert one.inputs["subjects"] == [{"kind": "ServiceAccount", "name": "mine", "namespace": "sluice-system"}]
        assert one.inputs["roleRef"]["name"] == one.inputs["metadata"]["name"]
        assert one.inputs["roleRef"]["kind"] == kind_of(one).removesuffix("Binding")
        assert one.waits_for(world.one(f":{one.inputs['roleRef']['kind']}", one.name))


def test_people_get_roles_that_kubernetes_adds_to_its_own() -> None:
    world = run()
    assert world.one(":ClusterRole", "r.view").inputs["metadata"]["name"] == "sluice-view"
    assert world.one(":ClusterRole", "r.edit").inputs["metadata"]["labels"][
        "rbac.authorization.k8s.io/aggregate-to-edit"
    ]


@pytest.mark.accept("U1", part="a role for readers of plans")
def test_readers_of_plans_get_two_roles_that_are_bound_to_nobody() -> None:
    world = run(config(namespace="own"))
    assert world.one(":ClusterRole", "r.plan").inputs["metadata"]["name"] == "sluice-plan"
    role = world.one(":Role", "r.plan").inputs
    assert (role["metadata"]["name"], role["metadata"]["namespace"]) == ("sluice-plan", "own")
    assert role["rules"] == [{"apiGroups": [""], "resources": ["pods/proxy"], "verbs": ["get"]}]
    assert not [one for one in of_runtime(world) if one.inputs.get("roleRef", {}).get("name") == "sluice-plan"]


@pytest.mark.accept("S6")
def test_the_role_in_aws_is_tied_to_the_account_and_bound_to_the_queue() -> None:
    world = run()
    tie = world.one(":PodIdentityAssociation")
    assert (tie.inputs["namespace"], tie.inputs["serviceAccount"]) == ("sluice-system", "sluice")
    policy = json.loads(world.one(":RolePolicy").inputs["policy"])
    assert QUEUE in json.dumps(policy)
    assert world.by_urn(world.one(":PodRole").parent).type == "sluice:index:Runtime"


def test_where_pods_cannot_get_a_role_none_is_made() -> None:
    assert run(access=accesses.of_another).of_type(":PodRole") == []
    assert run(config(nodeScaler="cluster-autoscaler")).of_type(":PodRole") == []


def test_a_single_replica_has_no_budget() -> None:
    assert run(config(replicas=1)).of_type(":PodDisruptionBudget") == []
    assert run().one(":PodDisruptionBudget").inputs["spec"]["maxUnavailable"] == 1


def test_a_namespace_that_is_there_is_not_made_again() -> None:
    chosen = configs.of_cluster(configs.cluster(namespaces={"sluice-system": {"existing": True}}))
    world = run(chosen.stack.config.clusters["bench"])
    assert world.of_type(":Namespace") == []
    assert world.one(":NamespacePatch").inputs["metadata"]["name"] == "sluice-system"


@pytest.mark.accept("P19")
def test_the_runtimes_namespace_has_pod_security() -> None:
    made = run(config(scope="cluster")).one(":Namespace", "r").inputs["metadata"]
    assert made["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_the_service_leaves_the_waiting_to_the_deployment() -> None:
    made = run().one(":Service")
    assert made.inputs["metadata"]["annotations"] == {"pulumi.com/skipAwait": "true"}
    assert made.inputs["spec"]["ports"][0]["port"] == 8080
