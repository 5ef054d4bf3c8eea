"""VPCs, subnets, internet gateways and security groups in moto, as far as groups of instances need them."""

from collections.abc import Mapping
from typing import Any, Final

from tools.engine.providers import calls, wire
from tools.engine.providers.aws import cloud, tags

VPC: Final = "aws:ec2/vpc:Vpc"
SUBNET: Final = "aws:ec2/subnet:Subnet"
GATEWAY: Final = "aws:ec2/internetGateway:InternetGateway"
SECURITY_GROUP: Final = "aws:ec2/securityGroup:SecurityGroup"
# By type: how one is described, and what it is called in answers and names.
_DESCRIBED: Final[Mapping[str, tuple[str, str, str, str]]] = {
    VPC: ("describe_vpcs", "VpcIds", "Vpcs", "vpc"),
    SUBNET: ("describe_subnets", "SubnetIds", "Subnets", "subnet"),
    GATEWAY: ("describe_internet_gateways", "InternetGatewayIds", "InternetGateways", "internet-gateway"),
    SECURITY_GROUP: ("describe_security_groups", "GroupIds", "SecurityGroups", "security-group"),
}


def create(aws: cloud.Cloud, asked: calls.Create) -> calls.State:
    inputs: dict[str, Any] = wire.plain(asked.inputs)
    kind = asked.resource.type
    tagged = tags.specification(_DESCRIBED[kind][3], inputs)
    match kind:
        case "aws:ec2/vpc:Vpc":
            identifier = _create_vpc(aws, inputs, tagged)
        case "aws:ec2/subnet:Subnet":
            identifier = _create_subnet(aws, inputs, tagged)
        case "aws:ec2/internetGateway:InternetGateway":
            identifier = _create_gateway(aws, inputs, tagged)
        case _:
            identifier = _create_security_group(aws, inputs, tagged)
    return _state(aws, kind, identifier, asked.inputs)


def read(aws: cloud.Cloud, asked: calls.Read) -> calls.State | None:
    live = _live(aws, asked.resource.type, asked.id)
    if live is None:
        return None
    outputs = asked.old_inputs | asked.old_outputs | _described(aws, asked.resource.type, asked.id, live)
    inputs = dict(asked.old_inputs)
    if "tags" in inputs:
        inputs["tags"] = {tag["Key"]: tag["Value"] for tag in live.get("Tags", ())}
    return calls.State(id=asked.id, outputs=outputs | inputs, inputs=inputs)


def update(aws: cloud.Cloud, asked: calls.Update) -> calls.State:
    inputs: dict[str, Any] = wire.plain(asked.inputs)
    old: dict[str, Any] = wire.plain(asked.old_inputs)
    tags.update(aws, asked.id, asked)
    if asked.resource.type == VPC:
        changed = {name: value for name, value in inputs.items() if name in asked.changed}
        _set_names(aws, asked.id, changed)
    if asked.resource.type == SUBNET and "mapPublicIpOnLaunch" in asked.changed:
        _set_public(aws, asked.id, is_public=bool(inputs.get("mapPublicIpOnLaunch")))
    if asked.resource.type == GATEWAY and "vpcId" in asked.changed:
        _detach(aws, asked.id)
        _attach(aws, asked.id, inputs)
    if asked.resource.type == SECURITY_GROUP and asked.changed & {"ingress", "egress"}:
        _send_rules(aws, "revoke", asked.id, old)
        _send_rules(aws, "authorize", asked.id, inputs)
    return _state(aws, asked.resource.type, asked.id, asked.inputs)


def delete(aws: cloud.Cloud, asked: calls.Delete) -> None:
    match asked.resource.type:
        case "aws:ec2/vpc:Vpc":
            aws.find("ec2", "delete_vpc", VpcId=asked.id)
        case "aws:ec2/subnet:Subnet":
            aws.find("ec2", "delete_subnet", SubnetId=asked.id)
        case "aws:ec2/internetGateway:InternetGateway":
            _detach(aws, asked.id)
            aws.find("ec2", "delete_internet_gateway", InternetGatewayId=asked.id)
        case _:
            aws.find("ec2", "delete_security_group", GroupId=asked.id)


def _create_vpc(aws: cloud.Cloud, inputs: Mapping[str, Any], tagged: dict[str, Any]) -> str:
    answer = aws.call("ec2", "create_vpc", CidrBlock=inputs["cidrBlock"], **tagged)
    identifier = str(answer["Vpc"]["VpcId"])
    _set_names(aws, identifier, inputs)
    return identifier


def _set_names(aws: cloud.Cloud, identifier: str, inputs: Mapping[str, Any]) -> None:
    for name, wire_name in (("enableDnsSupport", "EnableDnsSupport"), ("enableDnsHostnames", "EnableDnsHostnames")):
        if inputs.get(name) is not None:
            value = {"Value": bool(inputs[name])}
            aws.call("ec2", "modify_vpc_attribute", VpcId=identifier, **{wire_name: value})


def _create_subnet(aws: cloud.Cloud, inputs: Mapping[str, Any], tagged: dict[str, Any]) -> str:
    place = {"AvailabilityZone": inputs["availabilityZone"]} if inputs.get("availabilityZone") else {}
    answer = aws.call("ec2", "create_subnet", VpcId=inputs["vpcId"], CidrBlock=inputs["cidrBlock"], **place, **tagged)
    identifier = str(answer["Subnet"]["SubnetId"])
    if inputs.get("mapPublicIpOnLaunch"):
        _set_public(aws, identifier, is_public=True)
    return identifier


def _set_public(aws: cloud.Cloud, identifier: str, *, is_public: bool) -> None:
    aws.call("ec2", "modify_subnet_attribute", SubnetId=identifier, MapPublicIpOnLaunch={"Value": is_public})


def _create_gateway(aws: cloud.Cloud, inputs: Mapping[str, Any], tagged: dict[str, Any]) -> str:
    answer = aws.call("ec2", "create_internet_gateway", **tagged)
    identifier = str(answer["InternetGateway"]["InternetGatewayId"])
    _attach(aws, identifier, inputs)
    return identifier


def _attach(aws: cloud.Cloud, identifier: str, inputs: Mapping[str, Any]) -> None:
    if inputs.get("vpcId"):
        aws.call("ec2", "attach_internet_gateway", InternetGatewayId=identifier, VpcId=inputs["vpcId"])


def _detach(aws: cloud.Cloud, identifier: str) -> None:
    """Detach a gateway from where it really is, whatever the state says."""
    live = _live(aws, GATEWAY, identifier)
    for attachment in live.get("Attachments", ()) if live else ():
        aws.find("ec2", "detach_internet_gateway", InternetGatewayId=identifier, VpcId=attachment["VpcId"])


def _create_security_group(aws: cloud.Cloud, inputs: Mapping[str, Any], tagged: dict[str, Any]) -> str:
    place = {"VpcId": inputs["vpcId"]} if inputs.get("vpcId") else {}
    description = inputs.get("description") or "Managed by Pulumi"
    answer = aws.call(
        "ec2", "create_security_group", GroupName=inputs["name"], Description=description, **place, **tagged
    )
    identifier = str(answer["GroupId"])
    _send_rules(aws, "authorize", identifier, inputs)
    return identifier


def _send_rules(aws: cloud.Cloud, verb: str, identifier: str, inputs: Mapping[str, Any]) -> None:
    """Send ingress rules by address range or by the group itself; those by other groups are in the state alone."""
    rules = [_rule(identifier, rule) for rule in inputs.get("ingress") or ()]
    sent = [rule for rule in rules if rule["IpRanges"] or rule["UserIdGroupPairs"]]
    if sent:
        aws.call("ec2", f"{verb}_security_group_ingress", GroupId=identifier, IpPermissions=sent)


def _rule(identifier: str, given: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "IpProtocol": str(given["protocol"]),
        "FromPort": given["fromPort"],
        "ToPort": given["toPort"],
        "IpRanges": [{"CidrIp": each} for each in given.get("cidrBlocks") or ()],
        "UserIdGroupPairs": [{"GroupId": identifier}] if given.get("self") else [],
    }


def _state(aws: cloud.Cloud, kind: str, identifier: str, inputs: wire.Properties) -> calls.State:
    live = _live(aws, kind, identifier)
    if live is None:
        raise calls.RefusedError(f"{identifier} is gone; run a refresh")
    return calls.State(id=identifier, outputs=inputs | _described(aws, kind, identifier, live))


def _live(aws: cloud.Cloud, kind: str, identifier: str) -> dict[str, Any] | None:
    operation, argument, answer_name, _ = _DESCRIBED[kind]
    answer = aws.find("ec2", operation, **{argument: [identifier]})
    found: list[dict[str, Any]] = answer[answer_name] if answer else []
    return found[0] if found else None


def _described(aws: cloud.Cloud, kind: str, identifier: str, live: Mapping[str, Any]) -> wire.Properties:
    found: wire.Properties = {
        "arn": aws.settings.arn("ec2", f"{_DESCRIBED[kind][3]}/{identifier}"),
        "ownerId": aws.settings.account,
    }
    if kind == VPC:
        groups = aws.call(
            "ec2",
            "describe_security_groups",
            Filters=[{"Name": "vpc-id", "Values": [identifier]}, {"Name": "group-name", "Values": ["default"]}],
        )["SecurityGroups"]
        tables = aws.call("ec2", "describe_route_tables", Filters=[{"Name": "vpc-id", "Values": [identifier]}])[
            "RouteTables"
        ]
        found["cidrBlock"] = live["CidrBlock"]
        found["defaultSecurityGroupId"] = groups[0]["GroupId"] if groups else ""
        found["mainRouteTableId"] = tables[0]["RouteTableId"] if tables else ""
    if kind == SUBNET:
        found["availabilityZone"] = live["AvailabilityZone"]
        found["availabilityZoneId"] = live.get("AvailabilityZoneId", "")
    return found
