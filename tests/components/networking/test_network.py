import pulumi
import pulumi_aws as aws

from components.config import network as config
from components.networking import network
from components.place import Place
from tests.components import monitor

PLACE = Place(account="123456789012", partition="aws", region="eu-west-1", cluster="test-main")
ZONES = ("eu-west-1a", "eu-west-1b", "eu-west-1c")
OWNED = {"kubernetes.io/cluster/test-main": "owned"}


def made(
    *,
    zones: tuple[str, ...] = ZONES,
    control_plane: tuple[str, ...] = ZONES[:2],
    nat: str | None = None,
    lasting: tuple[str, ...] = ZONES,
) -> monitor.World:
    values: dict[str, object] = {"cidr": "10.32.0.0/16", **({"natGateways": config.NatGateways(nat)} if nat else {})}
    return run(values, zones, control_plane, lasting=lasting)


def run(
    values: dict[str, object],
    zones: tuple[str, ...],
    control_plane: tuple[str, ...],
    *,
    lasting: tuple[str, ...] = (),
) -> monitor.World:
    args = network.NetworkArgs(
        place=PLACE,
        config=config.Network.model_validate(values),
        zones=zones,
        lasting_zones=lasting,
        control_plane_zones=control_plane,
    )

    def program() -> dict[str, object]:
        provider = aws.Provider("aws", region="eu-west-1")
        one = network.Network("main", args, pulumi.ResourceOptions(providers=[provider]))
        return {
            "vpc": one.vpc_id,
            "subnets": one.subnet_ids,
            "control_plane": one.control_plane_subnet_ids,
            "ready": [resource.urn for resource in one.ready],
        }

    return monitor.run(program)


def test_a_new_network_has_exactly_these_parts() -> None:
    want = [
        *["aws:ec2/defaultSecurityGroup:DefaultSecurityGroup", "aws:ec2/eip:Eip"],
        *["aws:ec2/internetGateway:InternetGateway", "aws:ec2/natGateway:NatGateway"],
        *["aws:ec2/routeTable:RouteTable"] * 4,
        *["aws:ec2/routeTableAssociation:RouteTableAssociation"] * 4,
        *["aws:ec2/subnet:Subnet"] * 4,
        *["aws:ec2/vpc:Vpc", "aws:ec2/vpcEndpoint:VpcEndpoint", "pulumi:providers:aws"],
    ]
    world = made()
    assert world.types() == want
    component = world.one("sluice:index:Network")
    provider = world.one("pulumi:providers:aws")
    ours = [one for one in world.made if one.custom and one is not provider]
    assert all(one.parent == component.urn and one.provider == f"{provider.urn}::aws-id" for one in ours)
    assert not any(one.ignore_changes or one.retain_on_delete for one in ours)
    tagged = [one for one in ours if "Association" not in one.type]
    assert all(OWNED.items() <= one.inputs["tags"].items() for one in tagged)


def test_a_cluster_whose_key_begins_with_anothers_has_parts_of_its_own() -> None:
    args = network.NetworkArgs(
        place=PLACE, config=config.Network.model_validate({"cidr": "10.32.0.0/16"}), zones=ZONES, control_plane_zones=()
    )
    names = ("main", "main-public", "main-private", "main-s3")
    world = monitor.run(lambda: [network.Network(name, args) for name in names] and None)  # it refuses equal URNs
    assert len(world.of_type(":Vpc")) == len(names)


def test_nodes_live_in_one_private_subnet_per_zone() -> None:
    world = made()
    subnets = world.named(":Subnet")
    private = {zone: subnets[f"main.private-{zone}"].inputs for zone in ZONES}
    assert {zone: inputs["cidrBlock"] for zone, inputs in private.items()} == {
        "eu-west-1a": "10.32.0.0/20",
        "eu-west-1b": "10.32.32.0/20",
        "eu-west-1c": "10.32.64.0/20",
    }
    assert all(inputs["availabilityZone"] == zone for zone, inputs in private.items())
    assert all(inputs["mapPublicIpOnLaunch"] is False for inputs in private.values())
    assert all(inputs["tags"]["kubernetes.io/role/internal-elb"] == "1" for inputs in private.values())
    assert world.outputs["subnets"] == {zone: f"main.private-{zone}-id" for zone in ZONES}
    assert world.outputs["control_plane"] == ["main.private-eu-west-1a-id", "main.private-eu-west-1b-id"]
    assert world.outputs["vpc"] == "main-id"


def test_the_control_planes_zones_have_subnets_without_having_nodes() -> None:
    world = made(zones=("eu-west-1c",))
    assert sorted(world.outputs["subnets"]) == list(ZONES)


def test_a_single_nat_gateway_serves_all_zones() -> None:
    world = made()
    gateway = world.one(":NatGateway")
    assert world.named(":Subnet")["main.public-eu-west-1a"].inputs["cidrBlock"] == "10.32.16.0/24"
    assert gateway.inputs["subnetId"] == "main.public-eu-west-1a-id"
    tables = world.named(":RouteTable")
    want = [{"cidrBlock": "0.0.0.0/0", "natGatewayId": f"{gateway.name}-id"}]
    assert all(tables[f"main.private-{zone}"].inputs["routes"] == want for zone in ZONES)
    internet = world.one(":InternetGateway")
    assert tables["main.public"].inputs["routes"] == [{"cidrBlock": "0.0.0.0/0", "gatewayId": "main-id"}]
    assert gateway.waits_for(internet)
    assert gateway.waits_for(world.named(":RouteTableAssociation")["main.public-eu-west-1a"])
    assert world.one(":Eip").waits_for(internet)


def test_a_nat_gateway_per_zone_serves_its_zone_alone() -> None:
    world = made(nat="per-zone")
    assert {one.inputs["subnetId"] for one in world.of_type(":NatGateway")} == {
        f"main.public-{zone}-id" for zone in ZONES
    }
    tables = world.named(":RouteTable")
    for zone in ZONES:
        (route,) = tables[f"main.private-{zone}"].inputs["routes"]
        assert route["natGatewayId"] == f"main.public-{zone}-id"


def test_zones_without_a_gateway_go_out_by_the_first() -> None:
    tables = made(nat="per-zone", lasting=ZONES[1:]).named(":RouteTable")
    (route,) = tables["main.private-eu-west-1a"].inputs["routes"]
    assert route["natGatewayId"] == "main.public-eu-west-1b-id"


def test_without_a_control_plane_the_first_zone_has_the_gateway() -> None:
    world = made(zones=("eu-west-1c", "eu-west-1b"), control_plane=())
    assert world.one(":NatGateway").inputs["subnetId"] == "main.public-eu-west-1b-id"
    assert world.outputs["control_plane"] == []


def test_each_private_subnet_follows_its_own_table() -> None:
    associations = made().named(":RouteTableAssociation")
    for zone in ZONES:
        want = {"subnetId": f"main.private-{zone}-id", "routeTableId": f"main.private-{zone}-id"}
        assert associations[f"main.private-{zone}"].inputs == want


def test_the_default_group_lets_nothing_through() -> None:
    group = made().one(":DefaultSecurityGroup")
    assert group.inputs["ingress"] == []
    assert group.inputs["egress"] == []


def test_image_layers_come_past_the_nat_gateway() -> None:
    endpoint = made().one(":VpcEndpoint").inputs
    assert endpoint["serviceName"] == "com.amazonaws.eu-west-1.s3"
    assert endpoint["vpcEndpointType"] == "Gateway"
    assert endpoint["routeTableIds"] == [f"main.private-{zone}-id" for zone in ZONES]


def test_instances_can_wait_for_their_way_out() -> None:
    world = made()
    want = {
        world.one(":VpcEndpoint").urn,
        *(world.named(":RouteTableAssociation")[f"main.private-{zone}"].urn for zone in ZONES),
    }
    assert set(world.outputs["ready"]) == want


def test_an_adopted_network_is_used_and_not_touched() -> None:
    ids = {"eu-west-1a": "subnet-0000000a", "eu-west-1b": "subnet-0000000b", "eu-west-1c": "subnet-0000000c"}
    world = run({"vpcId": "vpc-00000001", "subnetIds": ids}, ("eu-west-1a",), ("eu-west-1a", "eu-west-1b"))
    assert world.types() == ["pulumi:providers:aws"]
    assert world.outputs["vpc"] == "vpc-00000001"
    assert world.outputs["subnets"] == ids
    assert world.outputs["control_plane"] == ["subnet-0000000a", "subnet-0000000b"]
    assert world.outputs["ready"] == []
