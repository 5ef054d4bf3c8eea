"""The program as a whole, with a recording monitor: every environment, its order, its secrets, its shape."""

import ast
import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest
import yaml

from autoscaler.api import crds, version
from components.config import problems
from tests.components import configs, monitor

ROOT = Path(__file__).parent.parent.parent
COMPONENTS = sorted((ROOT / "components").rglob("*.py"))


def evaluate(config: dict[str, Any], *, secret_keys: tuple[str, ...] = (), preview: bool = False) -> monitor.World:
    """Run the program with a stack's config."""
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in config.items()}

    def program() -> None:
        runpy.run_path(str(ROOT / "__main__.py"))

    return monitor.run(program, config=texts, secret_keys=secret_keys, preview=preview)


def of_file(stack: str) -> monitor.World:
    return evaluate(yaml.safe_load((ROOT / f"stacks/Pulumi.{stack}.yaml").read_text())["config"], preview=True)


def of_cluster(**fields: Any) -> monitor.World:
    sluice = configs.values(clusters={"bench": configs.cluster(**fields)})
    return evaluate({"aws:region": configs.REGION, **{f"sluice:{key}": value for key, value in sluice.items()}})


@pytest.fixture(scope="module", params=["local", "dev", "prod"])
def world(request: pytest.FixtureRequest) -> monitor.World:
    return of_file(request.param)


@pytest.mark.accept("S5", "S9")
def test_every_environment_evaluates_without_look_ups_and_says_its_grid(world: monitor.World) -> None:
    groups = world.of_type("autoscaling/group:Group")
    assert any(f"**{len(groups)} Auto Scaling groups**" in line for line in world.logs)
    exported = [row["name"] for cluster in world.outputs["clusters"].values() for row in cluster["autoScalingGroups"]]
    assert sorted(exported) == sorted(group.inputs["name"] for group in groups)
    assert world.outputs["version"] == version.VERSION


def test_every_resource_says_where_it_goes(world: monitor.World) -> None:
    default = [made.urn for made in world.made if made.custom and not made.provider and not _is_provider(made)]
    assert [urn for urn in default if "docker-build" not in urn] == []


def test_every_resource_belongs_to_a_component(world: monitor.World) -> None:
    loose = [made.name for made in world.made if made.parent.endswith("pulumi:pulumi:Stack::sluice-test")]
    assert [name for name in loose if name not in {"aws", "previews", *world.outputs["clusters"]}] == []


def _is_provider(made: monitor.Made) -> bool:
    return made.type.startswith("pulumi:providers:")


@pytest.mark.accept("S7")
def test_every_definition_is_as_the_api_says_stamped_and_retained(world: monitor.World) -> None:
    made = [one for one in world.of_type(":CustomResourceDefinition") if "sluice.dev" in one.inputs["metadata"]["name"]]
    want = {manifest["metadata"]["name"]: manifest["spec"] for manifest in crds.all_crds()}
    assert {one.inputs["metadata"]["name"]: one.inputs["spec"] for one in made} == want
    assert all(one.retain_on_delete for one in made)
    assert {one.inputs["metadata"]["labels"]["sluice.dev/version"] for one in made} == {version.VERSION}


@pytest.mark.accept("R6", part="no stack makes a webhook, and no definition is converted by one")
def test_there_is_no_webhook(world: monitor.World) -> None:
    assert [one for one in world.types() if "WebhookConfiguration" in one] == []
    definitions = world.of_type(":CustomResourceDefinition")
    assert [one.name for one in definitions if "webhook" in json.dumps(one.inputs["spec"].get("conversion", {}))] == []


@pytest.mark.accept("S1")
def test_the_order_is_that_of_the_design() -> None:
    world = of_cluster(
        nodePools={"services": configs.SERVICES, "work": configs.pool()},
        scopes={"research": {"namespaces": ["research"], "pools": [{"name": "work"}]}},
    )
    cluster = world.one("eks/cluster:Cluster")
    entry = next(made for made in world.of_type("accessEntry:AccessEntry") if made.inputs["type"] == "EC2_LINUX")
    network = world.one("addon:Addon", "bench.networking.vpc-cni")
    services = [one for one in world.of_type("autoscaling/group:Group") if ".pool.services." in one.name]
    dns = world.one("addon:Addon", "bench.services.coredns")
    definition = next(iter(world.of_type(":CustomResourceDefinition")))
    deployment = world.one("apps/v1:Deployment", "bench.runtime")
    policy = next(iter(world.of_type(":ValidatingAdmissionPolicy")))
    pool = next(one for one in world.of_type(":InstancePool") if one.inputs["metadata"]["name"] == "work")
    groups = [one for one in world.of_type("autoscaling/group:Group") if ".pool.work." in one.name]
    pairs = [
        (entry, cluster),
        (network, cluster),
        (dns, services[0]),
        (deployment, definition),
        (definition, dns),
        (policy, deployment),
    ]
    pairs += [(one, network) for one in services] + [(one, entry) for one in services] + [(deployment, dns)]
    pairs += [(pool, policy), (pool, deployment)] + [(pool, one) for one in groups]
    assert [(one.name, other.name) for one, other in pairs if not _after(world, one, other)] == []


@pytest.mark.accept("S20", part="a preview warns, and an up of a limit of money by example prices is refused")
def test_examples_are_warned_of_and_not_enforced_as_money() -> None:
    config = yaml.safe_load((ROOT / "stacks/Pulumi.dev.yaml").read_text())["config"]
    told = evaluate(config, preview=True).logs
    assert any("has example prices" in line for line in told)
    with pytest.raises(problems.ConfigError, match="would be kept by the example prices"):
        evaluate(config)


ROLE = f"arn:aws:iam::{configs.ACCOUNT}:role/deployer"


def test_the_chosen_profile_and_role_act_in_aws_and_in_the_cluster() -> None:
    sluice = configs.values(aws={"profile": "work", "assumeRole": ROLE})
    world = evaluate({"aws:region": configs.REGION, **{f"sluice:{key}": value for key, value in sluice.items()}})
    provider = world.one("providers:aws").inputs
    assert (provider["profile"], json.loads(provider["assumeRoles"])) == ("work", [{"roleArn": ROLE}])
    for way in world.of_type("providers:kubernetes"):
        command = json.loads(way.inputs["kubeconfig"])["users"][0]["user"]["exec"]["args"]
        assert command[-4:] == ["--profile", "work", "--role-arn", ROLE]
    plain = of_cluster()
    assert not plain.one("providers:aws").inputs.keys() & {"profile", "assumeRoles"}
    assert "--profile" not in plain.text()


def test_nobody_talks_to_a_new_cluster_before_its_networking_is_there() -> None:
    """The provider reads the API's schema once, at its start: a 401 then would last for the whole `up`."""
    world = of_cluster()
    networking = [one for one in world.of_type("addon:Addon") if ".networking." in one.name]
    assert len(networking) == 3
    for provider in world.of_type("providers:kubernetes"):
        assert all(provider.waits_for(one) for one in networking), provider.name


@pytest.mark.accept("S19", part="cluster and network are protected, unless the config says otherwise")
def test_cluster_and_network_are_protected_and_nothing_else() -> None:
    assert {one.type for one in of_cluster().made if one.protect} == {"aws:ec2/vpc:Vpc", "aws:eks/cluster:Cluster"}
    assert not [one.name for one in of_cluster(protect=False).made if one.protect]
    assert not [one.name for one in of_file("local").made if one.protect]


def _after(world: monitor.World, one: monitor.Made, other: monitor.Made) -> bool:
    """Tell whether a resource waits for another, itself or through what it waits for."""
    todo, seen = [one.urn], set[str]()
    known = {made.urn: made for made in world.made}
    while todo:
        urn = todo.pop()
        if urn in seen or urn not in known:
            continue
        seen.add(urn)
        provider = known[urn].provider.rpartition("::")[0]
        todo += [*known[urn].dependencies, provider]
    return other.urn in seen - {one.urn}


@pytest.mark.accept("S2")
def test_desired_capacity_is_never_sent(world: monitor.World) -> None:
    groups = world.of_type("autoscaling/group:Group")
    assert groups
    assert not any("desiredCapacity" in group.inputs for group in groups)
    assert all(group.ignore_changes == ("desiredCapacity",) for group in groups)
    assert all(group.inputs["protectFromScaleIn"] and group.inputs["forceDelete"] for group in groups)


@pytest.mark.accept("S10")
def test_secrets_are_marked_wherever_they_go_and_never_exported() -> None:
    autoscaler = {"imagePullSecrets": [{"name": "pull", "value": "pull"}]}
    sluice = configs.values(clusters={"bench": configs.cluster(autoscaler=autoscaler)})
    config = {"aws:region": configs.REGION, **{f"sluice:{key}": value for key, value in sluice.items()}}
    world = evaluate({**config, "sluice:secrets": {"pull": "aHVzaA=="}}, secret_keys=("sluice:secrets",))
    assert "aHVzaA==" not in world.text()
    assert "aHVzaA==" not in json.dumps(world.outputs)
    assert not any("aHVzaA==" in line for line in world.logs)
    secret = next(made for made in world.of_type("core/v1:Secret"))
    assert secret.secret_inputs & {"data", "stringData"}


@pytest.mark.accept("G14")
def test_the_two_node_scalers_never_come_together() -> None:
    upstream = of_cluster(autoscaler={"nodeScaler": "cluster-autoscaler"})
    native = of_cluster()
    assert "bench.cluster-autoscaler" in upstream.named("apps/v1:Deployment")
    assert not upstream.of_type("sqs/queue:Queue")
    assert "bench.cluster-autoscaler" not in native.named("apps/v1:Deployment")
    env = {one["name"]: one.get("value") for one in _container(upstream)["env"]}
    assert env["SLUICE_CONTROLLERS"] == "workers,admission,machines"
    env = {one["name"]: one.get("value") for one in _container(native)["env"]}
    assert env["SLUICE_CONTROLLERS"] == "workers,admission,machines,capacity"


def _container(world: monitor.World) -> dict[str, Any]:
    spec = world.one("apps/v1:Deployment", "bench.runtime").inputs["spec"]
    container: dict[str, Any] = spec["template"]["spec"]["containers"][0]
    return container


@pytest.mark.accept("G20")
@pytest.mark.parametrize(("instance_type", "want"), [("p3.8xlarge", True), ("c5.18xlarge", False)])
def test_gpu_pools_bring_the_device_plugin(instance_type: str, want: bool) -> None:  # noqa: FBT001
    pools = {"services": configs.SERVICES, "work": configs.pool(instanceTypes=[instance_type])}
    world = of_cluster(nodePools=pools)
    assert bool(world.of_type("apps/v1:DaemonSet")) == want


def test_clusters_of_one_stack_do_not_share_names() -> None:
    clusters = {"a": configs.cluster(), "b": configs.cluster(network={"cidr": "10.48.0.0/16"})}
    sluice = configs.values(clusters=clusters)
    world = evaluate({"aws:region": configs.REGION, **{f"sluice:{key}": value for key, value in sluice.items()}})
    named = [
        (made.type, made.inputs["name"])
        for made in world.made
        if made.type.startswith("aws:") and "name" in made.inputs
    ]
    assert len(named) == len(set(named))


def test_the_program_and_every_constructor_are_short() -> None:
    assert len((ROOT / "__main__.py").read_text().splitlines()) < 60
    long = [
        f"{path.name}:{node.name}"
        for path in COMPONENTS
        for kind in ast.walk(ast.parse(path.read_text()))
        if isinstance(kind, ast.ClassDef)
        for node in kind.body
        if isinstance(node, ast.FunctionDef) and node.name == "__init__" and node.end_lineno - node.lineno >= 60  # type: ignore[operator]
    ]
    assert long == []


def test_no_resource_is_made_inside_apply() -> None:
    for path in COMPONENTS:
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "apply":
                inside = [node for argument in call.args for node in ast.walk(argument) if isinstance(node, ast.Call)]
                roots = {ast.unparse(node.func).partition(".")[0] for node in inside}
                assert not roots & {"aws", "k8s", "kube"}, f"{path.name}:{call.lineno}"


def test_every_component_registers_its_outputs() -> None:
    for path in COMPONENTS:
        text = path.read_text()
        components = len(re.findall(r"\(pulumi\.ComponentResource\)", text))
        assert text.count("self.register_outputs(") == components, path.name
