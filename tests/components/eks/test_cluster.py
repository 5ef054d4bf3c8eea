import json
from typing import Any

import pulumi
import pulumi_aws as aws
import pytest

from components.config import clusters
from components.config import network as config_network
from components.eks import cluster, kubeconfigs
from components.networking import network
from tests.components import configs, monitor, places

ADMIN = "arn:aws:iam::123456789012:role/admins"
VIEWER = "arn:aws:iam::123456789012:user/viewer"
SUBNETS = {"eu-west-1a": "subnet-0000000a", "eu-west-1b": "subnet-0000000b"}
ADOPTED = {"vpcId": "vpc-00000001", "subnetIds": SUBNETS}


def config_of(fields: dict[str, Any], secrets: dict[str, str] | None = None) -> clusters.Cluster:
    return configs.of_cluster(fields, secrets=secrets).stack.config.clusters["bench"]


def eks(**fields: Any) -> monitor.World:
    config = config_of(configs.cluster(**{"network": ADOPTED, **fields}))
    assert config.network is not None
    net = network.NetworkArgs(
        place=places.place(), config=config.network, zones=tuple(SUBNETS), control_plane_zones=tuple(SUBNETS)
    )

    def program() -> dict[str, Any]:
        opts = pulumi.ResourceOptions(providers=[aws.Provider("aws", region="eu-west-1")])
        args = cluster.EksClusterArgs(place=places.place(), config=config, network=network.Network("bench", net, opts))
        made = cluster.EksCluster("bench", args, opts)
        return shown(made.connect(after=[aws.sqs.Queue("add-on", opts=opts)]))

    return monitor.run(program)


def existing(*, secrets: dict[str, str] | None = None, **fields: Any) -> monitor.World:
    config = config_of(configs.existing(**fields), secrets)
    assert config.existing is not None
    args = cluster.ExistingClusterArgs(place=places.place(), config=config, existing=config.existing)
    return monitor.run(
        lambda: shown(cluster.ExistingCluster("bench", args).access),
        config={"sluice:secrets": json.dumps(secrets or {})},
    )


def shown(access: cluster.Access) -> dict[str, Any]:
    return {
        "name": access.name,
        "eks_name": access.eks_name,
        "endpoint": access.endpoint,
        "api_servers": list(access.api_servers),
        "authority": access.certificate_authority,
        "service_cidr": access.service_cidr,
        "groups": list(access.security_group_ids),
        "command": access.kubeconfig_command,
        "ready": [one.urn for one in access.ready],
    }


@pytest.mark.accept("S1")
def test_a_new_cluster_has_exactly_these_parts() -> None:
    world = eks(access={"admins": [ADMIN]})
    assert world.types() == [
        "aws:cloudwatch/logGroup:LogGroup",
        "aws:eks/accessEntry:AccessEntry",
        "aws:eks/accessPolicyAssociation:AccessPolicyAssociation",
        "aws:eks/cluster:Cluster",
        "aws:iam/role:Role",
        "aws:iam/rolePolicyAttachment:RolePolicyAttachment",
        "aws:kms/key:Key",
        "aws:sqs/queue:Queue",
        "pulumi:providers:aws",
        "pulumi:providers:kubernetes",
        "pulumi:providers:kubernetes",
    ]
    component = world.one("sluice:index:EksCluster")
    ours = [one for one in world.made if one.custom and one.type != "pulumi:providers:aws" and one.name != "add-on"]
    assert all(one.parent == component.urn for one in ours)
    assert not any(one.ignore_changes or one.retain_on_delete for one in ours)
    tagged = [
        one for one in ours if one.type.startswith("aws:") and not one.type.endswith(("Attachment", "Association"))
    ]
    assert all(one.inputs["tags"] == places.OWNED for one in tagged)


def test_the_control_plane_is_what_the_config_says() -> None:
    made = eks().one("eks/cluster:Cluster").inputs
    assert {key: made[key] for key in ("name", "version", "bootstrapSelfManagedAddons", "upgradePolicy")} == {
        "name": "test-bench",
        "version": "1.36",
        "bootstrapSelfManagedAddons": False,
        "upgradePolicy": {"supportType": "STANDARD"},
    }
    assert made["accessConfig"] == {"authenticationMode": "API", "bootstrapClusterCreatorAdminPermissions": False}
    assert made["vpcConfig"] == {
        "subnetIds": ["subnet-0000000a", "subnet-0000000b"],
        "endpointPrivateAccess": True,
        "endpointPublicAccess": True,
        "publicAccessCidrs": ["203.0.113.0/24"],
    }
    assert made["kubernetesNetworkConfig"] == {"ipFamily": "ipv4", "serviceIpv4Cidr": "172.20.0.0/16"}
    assert made["enabledClusterLogTypes"] == ["api", "audit", "authenticator", "controllerManager", "scheduler"]


@pytest.mark.accept(
    "S19", part="the cluster is protected from replacement and deletion, unless the config says otherwise"
)
def test_the_cluster_is_protected_unless_the_config_says_otherwise() -> None:
    world = eks()
    assert [one.type for one in world.made if one.protect] == ["aws:eks/cluster:Cluster"]
    assert world.one("eks/cluster:Cluster").inputs["deletionProtection"] is True
    world = eks(protect=False)
    assert not any(one.protect for one in world.made)
    assert world.one("eks/cluster:Cluster").inputs["deletionProtection"] is False


def test_a_private_endpoint_is_open_to_nobody_outside() -> None:
    made = eks(endpoint={"public": False}).one("eks/cluster:Cluster").inputs["vpcConfig"]
    assert made["endpointPublicAccess"] is False
    assert "publicAccessCidrs" not in made


def test_secrets_are_encrypted_with_a_key_that_rotates() -> None:
    world = eks()
    key = world.one("kms/key:Key")
    assert key.inputs["enableKeyRotation"] is True
    assert "arn:aws:mock::Role/bench.control-plane" in key.inputs["policy"]
    want = {"provider": {"keyArn": f"arn:aws:mock::Key/{key.name}"}, "resources": ["secrets"]}
    assert world.one("eks/cluster:Cluster").inputs["encryptionConfig"] == want


def test_the_log_group_and_rights_come_before_the_cluster() -> None:
    world = eks(logs={"types": ["audit"], "retentionDays": 7})
    made = world.one("eks/cluster:Cluster")
    group = world.one(":LogGroup")
    assert group.inputs["name"] == "/aws/eks/test-bench/cluster"
    assert group.inputs["retentionInDays"] == 7
    assert made.inputs["enabledClusterLogTypes"] == ["audit"]
    assert made.waits_for(group)
    attachment = world.one(":RolePolicyAttachment")
    assert made.waits_for(attachment)
    assert attachment.inputs["policyArn"] == "arn:aws:iam::aws:policy/AmazonEKSClusterPolicy"
    trusted = json.loads(world.one("iam/role:Role").inputs["assumeRolePolicy"])
    assert trusted["Statement"][0]["Principal"] == {"Service": "eks.amazonaws.com"}


def test_everybody_gets_in_by_one_entry_of_their_own() -> None:
    world = eks(access={"admins": [ADMIN], "viewers": [VIEWER, ADMIN]})
    entries = {one.inputs["principalArn"]: one for one in world.of_type(":AccessEntry")}
    assert set(entries) == {ADMIN, VIEWER}
    assert all(
        one.inputs["clusterName"] == "test-bench" and one.inputs["type"] == "STANDARD" for one in entries.values()
    )
    assert entries[VIEWER].inputs["kubernetesGroups"] == ["sluice:viewers"]
    assert entries[ADMIN].inputs["kubernetesGroups"] == ["sluice:deployers", "sluice:viewers"]
    prefix = "arn:aws:eks::aws:cluster-access-policy"
    associations = world.of_type(":AccessPolicyAssociation")
    assert {(one.inputs["principalArn"], one.inputs["policyArn"]) for one in associations} == {
        (ADMIN, f"{prefix}/AmazonEKSClusterAdminPolicy"),
        (ADMIN, f"{prefix}/AmazonEKSViewPolicy"),
        (VIEWER, f"{prefix}/AmazonEKSViewPolicy"),
    }
    assert all(one.inputs["accessScope"] == {"type": "cluster"} for one in associations)
    assert all(one.waits_for(entries[one.inputs["principalArn"]]) for one in associations)


@pytest.mark.accept("S23")
def test_administrators_are_in_the_group_that_is_the_default_of_deployers() -> None:
    """So a plain `pulumi destroy` of a new cluster is not refused to who made it."""
    entry = eks(access={"admins": [ADMIN]}).one(":AccessEntry")
    config = configs.of_cluster(configs.cluster()).stack.config.clusters["bench"].autoscaler
    assert list(config.deployers.groups) == entry.inputs["kubernetesGroups"] == ["sluice:deployers"]


def test_nothing_is_put_into_the_cluster_before_entries_and_networking_are_there() -> None:
    world = eks(access={"admins": [ADMIN], "viewers": [VIEWER]})
    entries = [*world.of_type(":AccessEntry"), *world.of_type(":AccessPolicyAssociation")]
    for provider in world.of_type("providers:kubernetes"):
        assert all(provider.waits_for(entry) for entry in entries)
        assert provider.waits_for(world.one("sqs/queue:Queue", "add-on"))
    assert set(world.outputs["ready"]) == {entry.urn for entry in entries}


@pytest.mark.accept("S10")
def test_the_way_in_holds_no_token() -> None:
    world = eks()
    for provider in world.of_type("providers:kubernetes"):
        config = json.loads(provider.inputs["kubeconfig"])
        assert set(config["users"][0]["user"]) == {"exec"}
        assert config["clusters"][0]["cluster"]["server"] == "https://bench.example"
        assert provider.inputs["clusterIdentifier"] == "https://bench.example"


def test_only_definitions_take_over_what_is_there() -> None:
    for world in (eks(), existing()):
        providers = world.named("providers:kubernetes")
        assert providers["bench.definitions"].inputs["upsertExistingObjects"] == "true"
        assert providers["bench.definitions"].inputs["enablePatchForce"] == "true"
        assert "upsertExistingObjects" not in providers["bench.kubernetes"].inputs
        assert "enablePatchForce" not in providers["bench.kubernetes"].inputs


def test_secrets_and_config_maps_are_changed_in_place() -> None:
    for world in (eks(), existing()):
        for provider in world.of_type("providers:kubernetes"):
            assert provider.inputs["enableSecretMutable"] == "true"
            assert provider.inputs["enableConfigMapMutable"] == "true"


def test_a_new_clusters_access_says_what_instances_need() -> None:
    outputs = eks().outputs
    assert outputs["eks_name"] == outputs["name"] == "test-bench"
    assert outputs["endpoint"] == "https://bench.example"
    assert outputs["api_servers"] == ["https://bench.example"]
    assert outputs["authority"] == "Q0E="
    assert outputs["service_cidr"] == "172.20.0.0/16"
    assert outputs["groups"] == ["sg-bench"]
    assert outputs["command"] == "aws eks update-kubeconfig --name test-bench --region eu-west-1"


@pytest.mark.parametrize(
    ("cidr", "want"),
    [
        ("10.32.0.0/16", "172.20.0.0/16"),
        ("172.20.0.0/16", "10.100.0.0/16"),
        ("172.20.64.0/20", "10.100.0.0/16"),
        ("172.16.0.0/12", "10.100.0.0/16"),
        ("10.100.0.0/16", "172.20.0.0/16"),
    ],
)
def test_services_never_have_the_networks_addresses(cidr: str, want: str) -> None:
    # a prefix that is too short for a network of ours is still one that must be kept clear of
    assert cluster.service_cidr(config_network.Network.model_construct(cidr=cidr)) == want


def test_the_configs_addresses_of_services_win() -> None:
    made = eks(network={**ADOPTED, "serviceCidr": "10.7.0.0/16"})
    assert made.one("eks/cluster:Cluster").inputs["kubernetesNetworkConfig"]["serviceIpv4Cidr"] == "10.7.0.0/16"
    assert made.outputs["service_cidr"] == "10.7.0.0/16"


def test_an_adopted_networks_addresses_are_not_known() -> None:
    assert cluster.service_cidr(config_network.Network.model_validate(ADOPTED)) == "172.20.0.0/16"
    assert cluster.service_cidr(None) == "172.20.0.0/16"


def test_an_existing_cluster_is_reached_by_who_runs_pulumi() -> None:
    world = existing()
    assert world.types() == ["pulumi:providers:kubernetes", "pulumi:providers:kubernetes"]
    provider = world.named("providers:kubernetes")["bench.kubernetes"]
    assert provider.inputs["clusterIdentifier"] == "test-bench"
    assert not provider.inputs.keys() & {"kubeconfig", "context"}
    assert world.outputs == {
        "name": "test-bench",
        "endpoint": "https://api.test:6443",
        "api_servers": ["https://api.test:6443"],
        "authority": "Y2E=",
        "service_cidr": "10.0.0.0/24",
        "groups": [],
        "command": "kubectl config current-context",
        "ready": [],
    }


@pytest.mark.accept("S10")
def test_an_existing_clusters_kubeconfig_stays_a_secret() -> None:
    world = existing(existing={"kubeconfig": "lab", "context": "x"}, secrets={"lab": "token-in-here"})
    for provider in world.of_type("providers:kubernetes"):
        assert provider.inputs["kubeconfig"] == "token-in-here"
        assert "kubeconfig" in provider.secret_inputs
        assert provider.inputs["context"] == "x"
    assert "token-in-here" not in world.text()
    assert "token-in-here" not in json.dumps(world.outputs)


@pytest.mark.accept("W22")
def test_an_existing_clusters_api_server_is_known_from_all_that_the_config_says() -> None:
    kubeconfig = kubeconfigs.of_eks(
        cluster="lab", region="eu-west-1", endpoint="https://lab.example:6443/", certificate_authority="Q0E="
    )
    given = {"kubeconfig": "lab", "apiServers": ["https://10.0.0.1"]}
    world = existing(existing=given, secrets={"lab": kubeconfig})
    assert world.outputs["api_servers"] == ["https://10.0.0.1", "https://lab.example:6443"]
    assert existing(existing={}).outputs["api_servers"] == []


def test_an_existing_cluster_of_eks_lets_in_whom_the_config_names() -> None:
    world = existing(existing={"eksCluster": "lab"}, access={"admins": [ADMIN]})
    assert world.one(":AccessEntry").inputs["clusterName"] == "lab"
    assert world.one(":AccessPolicyAssociation").inputs["clusterName"] == "lab"
    assert world.outputs["eks_name"] == world.outputs["name"] == "lab"
    assert world.outputs["command"] == "aws eks update-kubeconfig --name lab --region eu-west-1"
    assert "endpoint" not in world.outputs
