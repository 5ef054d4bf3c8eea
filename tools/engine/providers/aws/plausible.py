"""Made-up identifiers and outputs for the AWS types that are only written down. Pure but for the identifiers drawn.

An EKS cluster is the API server of a plane: its endpoint and authority come from the engine's directory.
"""

import hashlib
import secrets
from collections.abc import Callable, Mapping
from typing import Any, Final

from tools.engine.providers import calls
from tools.engine.providers.aws import settings

ANY_CLUSTER = "*"
Clusters = Mapping[str, Mapping[str, str]]
Facts = Mapping[str, Any]
Made = tuple[str, dict[str, Any]]
Maker = Callable[[Facts, settings.Settings], Made]


UNIQUE: Final = frozenset({"aws:eks/accessEntry:AccessEntry"})
"""Types of which AWS refuses a second one under the same identifier; it takes others twice, or names them itself."""


def made(resource: calls.Resource, inputs: Facts, chosen: settings.Settings, clusters: Clusters) -> Made:
    """Return the identifier and the outputs beyond the inputs of a resource that is being made."""
    if resource.type == "aws:eks/cluster:Cluster":
        return _cluster(inputs, chosen, clusters)
    maker = _MAKERS.get(resource.type)
    identifier, outputs = _anything(resource, inputs, chosen) if maker is None else maker(inputs, chosen)
    return identifier, {"tagsAll": inputs.get("tags") or {}, **outputs}


def _anything(resource: calls.Resource, inputs: Facts, chosen: settings.Settings) -> Made:
    """Make up a thing of which nothing is known: it is called by its name, or by a number."""
    service, _, kind = resource.type.split(":")[1].partition("/")
    prefix = _PREFIXES.get(resource.type)
    if prefix is not None:
        identifier = f"{prefix}-{secrets.token_hex(8)}{secrets.token_hex(1)[0]}"
    else:
        identifier = str(inputs.get("name") or f"{kind.lower()}-{secrets.token_hex(6)}")
    return identifier, {"arn": chosen.arn(service, f"{kind}/{identifier}"), "name": inputs.get("name") or identifier}


def _cluster(inputs: Facts, chosen: settings.Settings, clusters: Clusters) -> Made:
    name = str(inputs["name"])
    known = clusters.get(name, clusters.get(ANY_CLUSTER))
    if known is None:
        raise calls.RefusedError(
            f"no API server plays the EKS cluster {name}; the engine knows {', '.join(sorted(clusters)) or 'none'}"
        )
    number = hashlib.sha256(name.encode()).hexdigest().upper()[:32]
    network = inputs.get("vpcConfig") or {}
    return name, {
        "arn": chosen.arn("eks", f"cluster/{name}"),
        "endpoint": known["endpoint"],
        "certificateAuthority": {"data": known["certificateAuthority"]},
        "certificateAuthorities": [{"data": known["certificateAuthority"]}],
        "identities": [{"oidcs": [{"issuer": f"https://oidc.eks.{chosen.region}.amazonaws.com/id/{number}"}]}],
        "vpcConfig": {**network, "clusterSecurityGroupId": f"sg-{number[:17].lower()}"},
        "kubernetesNetworkConfig": {
            "serviceIpv4Cidr": "10.0.0.0/24",
            "ipFamily": "ipv4",
            **(inputs.get("kubernetesNetworkConfig") or {}),
        },
        "platformVersion": "eks.1",
        "status": "ACTIVE",
        "createdAt": "2026-01-01T00:00:00Z",
        "tagsAll": inputs.get("tags") or {},
    }


def _addon(inputs: Facts, chosen: settings.Settings) -> Made:
    cluster, name = inputs["clusterName"], inputs["addonName"]
    return f"{cluster}:{name}", {"arn": chosen.arn("eks", f"addon/{cluster}/{name}")}


def _access_entry(inputs: Facts, chosen: settings.Settings) -> Made:
    cluster, principal = inputs["clusterName"], inputs["principalArn"]
    arn = chosen.arn("eks", f"access-entry/{cluster}/{secrets.token_hex(8)}")
    return f"{cluster}:{principal}", {"accessEntryArn": arn, "type": inputs.get("type") or "STANDARD"}


def _access_policy(inputs: Facts, _: settings.Settings) -> Made:
    return f"{inputs['clusterName']}#{inputs['principalArn']}#{inputs['policyArn']}", {}


def _pod_identity(inputs: Facts, chosen: settings.Settings) -> Made:
    identifier = f"a-{secrets.token_hex(9)[:17]}"
    arn = chosen.arn("eks", f"podidentityassociation/{inputs['clusterName']}/{identifier}")
    return identifier, {"associationId": identifier, "associationArn": arn}


def _open_id(inputs: Facts, chosen: settings.Settings) -> Made:
    host = str(inputs["url"]).removeprefix("https://")
    arn = chosen.arn("iam", f"oidc-provider/{host}", region="")
    return arn, {"arn": arn, "thumbprintLists": inputs.get("thumbprintLists") or []}


def _key(_: Facts, chosen: settings.Settings) -> Made:
    digits = secrets.token_hex(16)
    identifier = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    return identifier, {"keyId": identifier, "arn": chosen.arn("kms", f"key/{identifier}")}


def _alias(inputs: Facts, chosen: settings.Settings) -> Made:
    target = str(inputs["targetKeyId"])
    arn = target if target.startswith("arn:") else chosen.arn("kms", f"key/{target}")
    return str(inputs["name"]), {"arn": chosen.arn("kms", str(inputs["name"])), "targetKeyArn": arn}


def _log_group(inputs: Facts, chosen: settings.Settings) -> Made:
    return str(inputs["name"]), {"arn": chosen.arn("logs", f"log-group:{inputs['name']}")}


def _event_rule(inputs: Facts, chosen: settings.Settings) -> Made:
    return str(inputs["name"]), {"arn": chosen.arn("events", f"rule/{inputs['name']}")}


def _event_target(inputs: Facts, _: settings.Settings) -> Made:
    return f"{inputs['rule']}-{inputs['targetId']}", {}


def _repository(inputs: Facts, chosen: settings.Settings) -> Made:
    name = str(inputs["name"])
    host = f"{chosen.account}.dkr.ecr.{chosen.region}.amazonaws.com"
    outputs = {
        "arn": chosen.arn("ecr", f"repository/{name}"),
        "repositoryUrl": f"{host}/{name}",
        "registryId": chosen.account,
    }
    return name, outputs


def _lifecycle_policy(inputs: Facts, chosen: settings.Settings) -> Made:
    return str(inputs["repository"]), {"registryId": chosen.account}


def _image_builder(kind: str) -> Maker:
    def maker(inputs: Facts, chosen: settings.Settings) -> Made:
        version = f"/{inputs['version']}" if inputs.get("version") else ""
        arn = chosen.arn("imagebuilder", f"{kind}/{inputs['name']}{version}")
        return arn, {"arn": arn}

    return maker


def _budget(inputs: Facts, chosen: settings.Settings) -> Made:
    name = str(inputs["name"])
    arn = chosen.arn("budgets", f"budget/{name}", region="")
    return f"{chosen.account}:{name}", {"arn": arn, "accountId": chosen.account}


def _parameter(inputs: Facts, chosen: settings.Settings) -> Made:
    name = str(inputs["name"])
    arn = chosen.arn("ssm", f"parameter/{name.removeprefix('/')}")
    return name, {"arn": arn, "version": 1, "tier": inputs.get("tier") or "Standard"}


def _address(_: Facts, chosen: settings.Settings) -> Made:
    identifier = f"eipalloc-{secrets.token_hex(9)[:17]}"
    address = f"203.0.113.{secrets.randbelow(254) + 1}"
    arn = chosen.arn("ec2", f"elastic-ip/{identifier}")
    return identifier, {"allocationId": identifier, "publicIp": address, "arn": arn}


def _topic(inputs: Facts, chosen: settings.Settings) -> Made:
    arn = chosen.arn("sns", str(inputs["name"]))
    return arn, {"arn": arn}


_PREFIXES: Final[Mapping[str, str]] = {
    "aws:ec2/natGateway:NatGateway": "nat",
    "aws:ec2/route:Route": "r",
    "aws:ec2/routeTable:RouteTable": "rtb",
    "aws:ec2/routeTableAssociation:RouteTableAssociation": "rtbassoc",
    "aws:ec2/securityGroupRule:SecurityGroupRule": "sgrule",
    "aws:ec2/vpcEndpoint:VpcEndpoint": "vpce",
    "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule": "sgr",
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule": "sgr",
}
_MAKERS: Final[Mapping[str, Maker]] = {
    "aws:budgets/budget:Budget": _budget,
    "aws:cloudwatch/eventRule:EventRule": _event_rule,
    "aws:cloudwatch/eventTarget:EventTarget": _event_target,
    "aws:cloudwatch/logGroup:LogGroup": _log_group,
    "aws:ec2/eip:Eip": _address,
    "aws:ecr/lifecyclePolicy:LifecyclePolicy": _lifecycle_policy,
    "aws:ecr/repository:Repository": _repository,
    "aws:eks/accessEntry:AccessEntry": _access_entry,
    "aws:eks/accessPolicyAssociation:AccessPolicyAssociation": _access_policy,
    "aws:eks/addon:Addon": _addon,
    "aws:eks/podIdentityAssociation:PodIdentityAssociation": _pod_identity,
    "aws:iam/openIdConnectProvider:OpenIdConnectProvider": _open_id,
    "aws:imagebuilder/component:Component": _image_builder("component"),
    "aws:imagebuilder/distributionConfiguration:DistributionConfiguration": _image_builder(
        "distribution-configuration"
    ),
    "aws:imagebuilder/imagePipeline:ImagePipeline": _image_builder("image-pipeline"),
    "aws:imagebuilder/imageRecipe:ImageRecipe": _image_builder("image-recipe"),
    "aws:imagebuilder/infrastructureConfiguration:InfrastructureConfiguration": _image_builder(
        "infrastructure-configuration"
    ),
    "aws:kms/alias:Alias": _alias,
    "aws:kms/key:Key": _key,
    "aws:sns/topic:Topic": _topic,
    "aws:ssm/parameter:Parameter": _parameter,
}
