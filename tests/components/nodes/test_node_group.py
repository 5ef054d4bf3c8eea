from typing import Any

import pulumi_aws as aws
import pytest

from autoscaler.api.settings.node_groups import NodeGroupSpec
from components.config.node_pools import NodePool
from components.nodes import node_group
from tests.components import configs, monitor, places

TAGS = {"team": "research"}


def spec_of(**fields: Any) -> tuple[NodeGroupSpec, NodePool]:
    """The first group of a pool called work, in a stack with a tag."""
    values = configs.values(
        tags=TAGS,
        clusters={"bench": configs.cluster(nodePools={"services": configs.SERVICES, "work": configs.pool(**fields)})},
    )
    loaded = configs.load(values)
    return loaded.grids["bench"].of_pool("work")[0], loaded.stack.config.clusters["bench"].node_pools["work"]


def run(**fields: Any) -> monitor.World:
    spec, pool = spec_of(**fields)

    def program() -> None:
        role = aws.ec2.Vpc("role", cidr_block="10.0.0.0/16")
        args = node_group.NodeGroupArgs(
            place=places.place(),
            spec=spec,
            pool=pool,
            image_id="ami-00000001",
            user_data="dGV4dA==",
            subnet_id="subnet-00000001",
            security_group_ids=["sg-00000001"],
            instance_profile_arn="arn:aws:iam::123456789012:instance-profile/nodes",
            after=[role],
        )
        node_group.NodeGroup("bench-work", args)

    return monitor.run(program)


@pytest.mark.accept("S2")
def test_desired_capacity_is_the_runtimes_alone() -> None:
    group = run().one("autoscaling/group:Group")
    assert "desiredCapacity" not in group.inputs
    assert group.ignore_changes == ("desiredCapacity",)


@pytest.mark.accept("G1")
def test_a_group_has_one_subnet_and_one_type() -> None:
    world = run(maxPerGroup=7)
    spec, _ = spec_of()
    group, template = world.one("autoscaling/group:Group"), world.one(":LaunchTemplate")
    assert group.inputs["vpcZoneIdentifiers"] == ["subnet-00000001"]
    assert (group.inputs["minSize"], group.inputs["maxSize"]) == (0, 7)
    assert template.inputs["instanceType"] == "c5.18xlarge"
    assert group.inputs["name"] == template.inputs["name"] == spec.name == "test-bench.work.eu-west-1a.c5.18xlarge"
    assert group.inputs["launchTemplate"] == {"id": "bench-work-id", "version": "7"}
    component = world.one("sluice:index:NodeGroup")
    assert group.parent == template.parent == component.urn


def test_no_instance_is_ended_by_anything_but_the_runtime_or_a_destroy() -> None:
    group = run().one("autoscaling/group:Group").inputs
    assert group["protectFromScaleIn"] is True
    assert group["capacityRebalance"] is False
    assert group["forceDelete"] is True
    assert group["healthCheckType"] == "EC2"
    assert "maxInstanceLifetime" not in group
    assert "instanceRefresh" not in group


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        ({}, "0"),
        ({"minPerGroup": 1}, "0"),
        ({"nodeType": "k8s-services"}, "0"),
        ({"nodeType": "k8s-services", "minPerGroup": 1}, "10m"),
    ],
)
def test_only_instances_that_add_ons_need_are_waited_for(fields: dict[str, Any], want: str) -> None:
    assert run(**fields).one("autoscaling/group:Group").inputs["waitForCapacityTimeout"] == want


@pytest.mark.accept("G2")
def test_the_group_has_all_tags_in_order() -> None:
    spec, _ = spec_of()
    tags = run().one("autoscaling/group:Group").inputs["tags"]
    assert {tag["key"]: tag["value"] for tag in tags} == spec.tags
    assert [tag["key"] for tag in tags] == sorted(spec.tags)
    template = "k8s.io/cluster-autoscaler/node-template"
    assert {f"{template}/label/node.type", "k8s.io/cluster-autoscaler/enabled"} <= set(spec.tags)


@pytest.mark.accept("P23")
def test_instances_and_disks_say_whose_they_are_and_who_pays() -> None:
    world = run()
    want = {
        "Name": "test-bench.work.eu-west-1a.c5.18xlarge",
        "kubernetes.io/cluster/test-bench": "owned",
        "sluice.dev/instance-pool": "work",
        "team": "research",
    }
    specifications = world.one(":LaunchTemplate").inputs["tagSpecifications"]
    assert {one["resourceType"]: one["tags"] for one in specifications} == {
        "instance": want,
        "network-interface": want,
        "volume": want,
    }
    tags = world.one("autoscaling/group:Group").inputs["tags"]
    assert {tag["key"] for tag in tags if tag["propagateAtLaunch"]} == set(want)


@pytest.mark.accept("P19")
def test_workloads_cannot_reach_what_an_instance_started_with() -> None:
    template = run().one(":LaunchTemplate").inputs
    assert template["metadataOptions"] == {
        "httpEndpoint": "enabled",
        "httpTokens": "required",
        "httpPutResponseHopLimit": 1,
        "httpProtocolIpv6": "disabled",
        "instanceMetadataTags": "disabled",
    }


def test_an_instance_is_private_and_its_disk_encrypted() -> None:
    template = run(rootVolume={"sizeGib": 200, "iops": 6000, "throughputMib": 500}).one(":LaunchTemplate").inputs
    assert template["networkInterfaces"] == [
        {
            "deviceIndex": 0,
            "associatePublicIpAddress": "false",
            "deleteOnTermination": "true",
            "securityGroups": ["sg-00000001"],
        }
    ]
    assert template["blockDeviceMappings"] == [
        {
            "deviceName": "/dev/xvda",
            "ebs": {
                "encrypted": "true",
                "deleteOnTermination": "true",
                "volumeType": "gp3",
                "volumeSize": 200,
                "iops": 6000,
                "throughput": 500,
            },
        }
    ]
    assert template["imageId"] == "ami-00000001"
    assert template["userData"] == "dGV4dA=="
    assert template["iamInstanceProfile"] == {"arn": "arn:aws:iam::123456789012:instance-profile/nodes"}
    assert template["monitoring"] == {"enabled": False}
    assert template["updateDefaultVersion"] is True
    assert "keyName" not in template


@pytest.mark.parametrize(("kind", "want"), [("on-demand", None), ("spot", {"marketType": "spot"})])
def test_spot_instances_are_asked_for_as_such(kind: str, want: dict[str, str] | None) -> None:
    assert run(capacityType=kind).one(":LaunchTemplate").inputs.get("instanceMarketOptions") == want


def test_instances_start_after_what_they_need() -> None:
    world = run()
    group = world.one("autoscaling/group:Group")
    assert group.waits_for(world.one(":Vpc"))
    assert group.waits_for(world.one(":LaunchTemplate"))
