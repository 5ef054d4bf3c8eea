import base64
import re
from typing import Any

import pulumi_aws as aws
import pytest
import yaml

from autoscaler.api import quantities
from autoscaler.cloud import catalogue
from components.config.node_pools import NodePool
from components.eks import cluster, node_role
from components.networking import network
from components.nodes import grid, node_pool
from tests.components import configs, monitor, places

ALARMS = {"emails": ["a@x.org"]}
PIPELINE = {"builder": {"baseImageId": "ami-00000009"}}


def load(**fields: Any) -> tuple[NodePool, grid.Grid, Any]:
    pools = {"services": configs.SERVICES, "work": configs.pool(**fields)}
    values = configs.values(
        alarms=ALARMS, machineImages=PIPELINE, clusters={"bench": configs.existing(nodePools=pools)}
    )
    loaded = configs.load(values)
    return loaded.stack.config.clusters["bench"].node_pools["work"], loaded.grids["bench"], loaded.stack.config


def run(*, release: str | None = configs.RELEASE, parameter: str | None = None, **fields: Any) -> monitor.World:
    pool, groups, config = load(**fields)
    bench = config.clusters["bench"]

    def program() -> dict[str, Any]:
        place = places.place()
        existing = cluster.ExistingClusterArgs(place=place, config=bench, existing=bench.existing)
        access = cluster.ExistingCluster("bench", existing).access
        net = network.NetworkArgs(place=place, config=bench.network, zones=groups.zones())
        role = node_role.NodeRole("bench-nodes", node_role.NodeRoleArgs(place=place, access=access))
        made = node_pool.NodePool(
            "bench-work",
            node_pool.NodePoolArgs(
                place=place,
                pool_name="work",
                config=pool,
                groups=groups.of_pool("work"),
                access=access,
                network=network.Network("bench", net),
                node_role=role,
                release=release,
                image_parameter=parameter,
                alarms=config.alarms,
                after=[aws.ec2.Vpc("addons", cidr_block="10.0.0.0/16")],
            ),
        )
        return {"keys": [str(key.zone) for key in made.groups], "ready": [one.urn for one in made.ready]}

    return monitor.run(program)


def templates(world: monitor.World) -> dict[str, Any]:
    return {one.inputs["name"]: one.inputs for one in world.of_type(":LaunchTemplate")}


def node_config(user_data: str) -> dict[str, Any]:
    text = base64.b64decode(user_data).decode()
    found: dict[str, Any] = yaml.safe_load(re.split(r"^---\n", text, flags=re.MULTILINE)[1].split("--SLUICE")[0])
    return found


def debian_config(user_data: str) -> dict[str, Any]:
    files = yaml.safe_load(base64.b64decode(user_data))["write_files"]
    (text,) = (one["content"] for one in files if one["path"] == "/etc/kubernetes/kubelet.yaml")
    found: dict[str, Any] = yaml.safe_load(text)
    return found


@pytest.mark.accept("G1")
def test_a_pool_has_one_group_for_each_zone_and_type_that_is_offered() -> None:
    world = run(instanceTypes=["c5.18xlarge", "p3.8xlarge"])
    _, planned, _ = load(instanceTypes=["c5.18xlarge", "p3.8xlarge"])
    want = {spec.name for spec in planned.of_pool("work")}
    assert len(want) >= 4
    groups = world.of_type("autoscaling/group:Group")
    assert {one.inputs["name"] for one in groups} == set(templates(world)) == want
    for one in groups:
        zone = one.inputs["name"].split(".")[2]
        assert one.inputs["vpcZoneIdentifiers"] == [f"bench.private-{zone}-id"]
    assert set(world.outputs["ready"]) == {one.urn for one in groups}


def test_logical_names_are_made_of_pool_zone_and_type() -> None:
    world = run()
    assert {one.name for one in world.of_type("autoscaling/group:Group")} == {
        f"bench-work.eu-west-1{letter}.c5.18xlarge" for letter in "abc"
    }


def test_instances_wait_for_their_way_out_their_role_and_the_add_ons() -> None:
    world = run()
    wanted = [
        world.named(":Vpc")["addons"],
        world.one(":VpcEndpoint"),
        world.named(":RouteTableAssociation")["bench.private-eu-west-1a"],
        *world.of_type(":RolePolicyAttachment"),
        world.one(":InstanceProfile"),
    ]
    for group in world.of_type("autoscaling/group:Group"):
        assert all(group.waits_for(one) for one in wanted)


@pytest.mark.accept("S2")
def test_the_image_is_pinned_by_release_and_fits_the_type() -> None:
    made = templates(run(instanceTypes=["c5.18xlarge", "m7g.large", "p3.8xlarge"]))
    path = "resolve:ssm:/aws/service/eks/optimized-ami/1.36/amazon-linux-2023"
    images = {name.split(".", 3)[3]: one["imageId"] for name, one in made.items()}
    assert images["c5.18xlarge"].startswith(f"{path}/x86_64/standard/")
    assert images["m7g.large"].startswith(f"{path}/arm64/standard/")
    assert images["p3.8xlarge"].startswith(f"{path}/x86_64/nvidia/")
    assert all("20261101" in image for image in images.values())


@pytest.mark.accept("G3", "S10")
def test_nodes_register_with_the_labels_that_the_group_promises() -> None:
    world = run(tags=["fast"], labels={"a": "b"})
    _, planned, _ = load(tags=["fast"], labels={"a": "b"})
    for spec in planned.of_pool("work"):
        config = node_config(templates(world)[spec.name]["userData"])["spec"]
        assert config["cluster"] == {
            "name": "test-bench",
            "apiServerEndpoint": "https://api.test:6443",
            "certificateAuthority": "Y2E=",
            "cidr": "10.0.0.0/24",
        }
        flags = dict(flag.split("=", 1) for flag in config["kubelet"]["flags"])
        labels = dict(label.split("=", 1) for label in flags["--node-labels"].split(","))
        assert labels == grid.registered_labels(spec)
        assert labels["node.type"] == spec.tags["k8s.io/cluster-autoscaler/node-template/label/node.type"] == "worker"
        assert config["kubelet"]["config"]["maxPods"] == spec.max_pods


@pytest.mark.accept("G21")
@pytest.mark.parametrize("image", [{}, {"image": {"pipeline": "builder"}}], ids=["al2023", "debian"])
def test_kubelets_offer_what_the_groups_tags_promise(image: dict[str, Any]) -> None:
    """A kubelet offers its capacity, less kubeReserved, less evictionHard."""
    options: dict[str, Any] = {"instanceTypes": ["c5.18xlarge", "p3.8xlarge"], **image}
    made = templates(run(parameter="/sluice/test/images/builder", **options))
    _, planned, _ = load(**options)
    for spec in planned.of_pool("work"):
        text = made[spec.name]["userData"]
        config = debian_config(text) if image else node_config(text)["spec"]["kubelet"]["config"]
        reserved, evicted = config["kubeReserved"], config["evictionHard"]
        seen = spec.memory_bytes * 925 // 1000
        room = seen - quantities.units(reserved["memory"]) - quantities.units(evicted["memory.available"])
        assert quantities.units(spec.resources["memory"]) == room // 1024**2 * 1024**2
        disk = 50 * 1024**3
        kept = disk * int(evicted["nodefs.available"].rstrip("%")) // 100
        room = disk - quantities.units(reserved["ephemeral-storage"]) - kept
        assert quantities.units(spec.resources["ephemeral-storage"]) == room
        offered = catalogue.bundled()[spec.key.instance_type].allocatable()
        assert offered["cpu"] == spec.vcpus * 1000 - quantities.millis(reserved["cpu"])
        assert offered["memory"] == quantities.units(spec.resources["memory"])
        assert offered["pods"] == config["maxPods"]


def test_nodes_register_with_start_up_taints_that_no_tag_tells() -> None:
    taint = {"key": "efs.csi.aws.com/agent-not-ready", "effect": "NoExecute"}
    world = run(startupTaints=[taint])
    for template in templates(world).values():
        flags = node_config(template["userData"])["spec"]["kubelet"]["flags"]
        assert "efs.csi.aws.com/agent-not-ready=:NoExecute" in next(each for each in flags if "taints" in each)
    for group in world.of_type("autoscaling/group:Group"):
        assert "efs.csi.aws.com" not in str(group.inputs["tags"])


def test_a_pools_own_image_is_bootstrapped_like_eks_own() -> None:
    made = templates(run(image={"imageId": "ami-00000001"}, release=None))
    assert {one["imageId"] for one in made.values()} == {"ami-00000001"}
    assert all(node_config(one["userData"])["kind"] == "NodeConfig" for one in made.values())


@pytest.mark.accept("P18")
def test_a_pipelines_image_is_debian_with_user_data_of_its_own() -> None:
    made = templates(run(image={"pipeline": "builder"}, parameter="/sluice/test/images/builder", release=None))
    assert {one["imageId"] for one in made.values()} == {"resolve:ssm:/sluice/test/images/builder"}
    assert all(base64.b64decode(one["userData"]).startswith(b"#cloud-config\n") for one in made.values())


@pytest.mark.parametrize(
    ("fields", "want"), [({}, "nodeImage.release"), ({"image": {"pipeline": "builder"}}, "pipeline builder")]
)
def test_a_pool_without_an_image_is_refused(fields: dict[str, Any], want: str) -> None:
    with pytest.raises(ValueError, match=want):
        run(release=None, **fields)


def test_instances_have_the_clusters_groups_and_the_pools_own() -> None:
    made = templates(run(securityGroupIds=["sg-00000005"]))
    assert all(one["networkInterfaces"][0]["securityGroups"] == ["sg-00000005"] for one in made.values())
    assert {one["iamInstanceProfile"]["arn"] for one in made.values()} == {"arn:aws:mock::InstanceProfile/bench-nodes"}


@pytest.mark.accept("P23")
def test_a_money_limit_brings_a_budget_and_nothing_else_does() -> None:
    assert run(limits={"targetMaxCostPerMonth": 100}).one(":Budget").inputs["name"] == "test-bench.work"
    assert not run(limits={"maxActiveInstances": 5}).of_type(":Budget")
