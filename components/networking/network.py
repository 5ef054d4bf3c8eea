"""Where nodes live: a network of the cluster's own, or the subnets of one that is there already.

Nodes are in private subnets only; what is public holds NAT gateways and nothing else. An adopted network is used and
never changed: not even a tag is added.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from components.config import network
from components.networking import subnets
from components.place import Place

ANYWHERE = "0.0.0.0/0"


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkArgs:
    """Which network, and in which zones it is needed."""

    place: Place
    config: network.Network
    zones: tuple[str, ...]
    """Zones with nodes."""
    lasting_zones: tuple[str, ...] = ()
    """Those of them in which a pool always has nodes."""
    control_plane_zones: tuple[str, ...] = ()
    """Zones of the control plane, each with a subnet if the network is adopted; none for a cluster that is there."""
    protect: bool = False
    """Whether a new network may neither be replaced nor deleted."""


class Network(pulumi.ComponentResource):
    """A private subnet in every zone that needs one."""

    vpc_id: pulumi.Input[str]
    subnet_ids: Mapping[str, pulumi.Input[str]]
    """Private subnets by zone."""
    control_plane_subnet_ids: list[pulumi.Input[str]]
    ready: Sequence[pulumi.Resource]
    """What must be there before an instance starts, or it would find no way out."""

    def __init__(self, name: str, args: NetworkArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("sluice:index:Network", name, None, opts)
        if args.config.cidr is None:
            self.vpc_id = args.config.vpc_id or ""
            self.subnet_ids = dict(args.config.subnet_ids or {})
            self.ready = ()
        else:
            made = _Builder(self, name, args, args.config.cidr)
            self.vpc_id = made.vpc.id
            self.subnet_ids = {zone: subnet.id for zone, subnet in made.private.items()}
            self.ready = (made.storage, *made.ways_out)
        self.control_plane_subnet_ids = [self.subnet_ids[zone] for zone in args.control_plane_zones]
        self.register_outputs({"vpcId": self.vpc_id, "subnetIds": self.subnet_ids})


class _Builder:
    """Makes the parts of a new network, as children of the component."""

    def __init__(self, parent: Network, name: str, args: NetworkArgs, cidr: str) -> None:
        self._name = name
        self._place = args.place
        self._child = pulumi.ResourceOptions(parent=parent)
        zones = sorted({*args.zones, *args.control_plane_zones})
        carved = subnets.carve(cidr, zones)
        gateways = subnets.gateway_zones(
            args.config.nat_gateways, zones=zones, lasting=args.lasting_zones, control_plane=args.control_plane_zones
        )

        self.vpc = self._vpc(cidr, protect=args.protect)
        self._close_default_group()
        self._internet = aws.ec2.InternetGateway(name, vpc_id=self.vpc.id, tags=self._tags(), opts=self._child)
        self._public_routes = self._routes("public", gateway_id=self._internet.id)
        nat = {zone: self._nat_gateway(zone, carved[zone].public) for zone in gateways}
        self.private = {zone: self._private_subnet(zone, carved[zone].private) for zone in zones}
        tables = {
            zone: self._routes(f"private-{zone}", nat_gateway_id=(nat.get(zone) or nat[gateways[0]]).id)
            for zone in zones
        }
        self.ways_out = [self._associate(f"private-{zone}", self.private[zone], tables[zone]) for zone in zones]
        self.storage = self._storage_endpoint([table.id for table in tables.values()])

    def _tags(self, suffix: str = "") -> dict[str, str]:
        return {**self._place.owned, "Name": f"{self._place.cluster}{suffix}"}

    def _vpc(self, cidr: str, *, protect: bool) -> aws.ec2.Vpc:
        return aws.ec2.Vpc(
            self._name,
            cidr_block=cidr,
            enable_dns_support=True,
            enable_dns_hostnames=True,
            tags=self._tags(),
            opts=pulumi.ResourceOptions.merge(self._child, pulumi.ResourceOptions(protect=protect)),
        )

    def _close_default_group(self) -> None:
        """Take all rules from the group that AWS gives to whatever names none."""
        aws.ec2.DefaultSecurityGroup(
            self._name, vpc_id=self.vpc.id, ingress=[], egress=[], tags=self._tags("-closed"), opts=self._child
        )

    def _routes(
        self,
        key: str,
        *,
        gateway_id: pulumi.Input[str] | None = None,
        nat_gateway_id: pulumi.Input[str] | None = None,
    ) -> aws.ec2.RouteTable:
        """Make a table that leads everything out by one gateway."""
        way_out = aws.ec2.RouteTableRouteArgs(cidr_block=ANYWHERE, gateway_id=gateway_id, nat_gateway_id=nat_gateway_id)
        return aws.ec2.RouteTable(
            f"{self._name}.{key}", vpc_id=self.vpc.id, routes=[way_out], tags=self._tags(f"-{key}"), opts=self._child
        )

    def _associate(self, key: str, subnet: aws.ec2.Subnet, table: aws.ec2.RouteTable) -> aws.ec2.RouteTableAssociation:
        return aws.ec2.RouteTableAssociation(
            f"{self._name}.{key}", subnet_id=subnet.id, route_table_id=table.id, opts=self._child
        )

    def _private_subnet(self, zone: str, cidr: str) -> aws.ec2.Subnet:
        return aws.ec2.Subnet(
            f"{self._name}.private-{zone}",
            vpc_id=self.vpc.id,
            availability_zone=zone,
            cidr_block=cidr,
            map_public_ip_on_launch=False,
            tags={**self._tags(f"-private-{zone}"), "kubernetes.io/role/internal-elb": "1"},
            opts=self._child,
        )

    def _nat_gateway(self, zone: str, cidr: str) -> aws.ec2.NatGateway:
        """Make a gateway with a subnet and an address of its own."""
        key = f"{self._name}.public-{zone}"
        tags = self._tags(f"-public-{zone}")
        subnet = aws.ec2.Subnet(
            key, vpc_id=self.vpc.id, availability_zone=zone, cidr_block=cidr, tags=tags, opts=self._child
        )
        route = self._associate(f"public-{zone}", subnet, self._public_routes)
        after = pulumi.ResourceOptions.merge(self._child, pulumi.ResourceOptions(depends_on=[self._internet, route]))
        address = aws.ec2.Eip(key, domain="vpc", tags=tags, opts=after)
        return aws.ec2.NatGateway(key, subnet_id=subnet.id, allocation_id=address.id, tags=tags, opts=after)

    def _storage_endpoint(self, tables: Sequence[pulumi.Input[str]]) -> aws.ec2.VpcEndpoint:
        """Let image layers come from S3 without passing, and paying, a NAT gateway."""
        return aws.ec2.VpcEndpoint(
            f"{self._name}.s3",
            vpc_id=self.vpc.id,
            service_name=f"com.amazonaws.{self._place.region}.s3",
            vpc_endpoint_type="Gateway",
            route_table_ids=tables,
            tags=self._tags("-s3"),
            opts=self._child,
        )
