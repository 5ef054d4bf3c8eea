"""What the AWS stand-in decides by type: names it makes up, tags it adds, changes that need a replacement. Pure.

The replacement rules are few and partly guesses: names, address ranges, networks, engine of a thing. The real
provider replaces in more cases.
"""

import hashlib
from collections.abc import Mapping
from typing import Final

from tools.engine.providers import calls, changes, wire

DEFAULTS: Final = "__defaults"
"""Names the inputs that Check made up; no difference to anybody."""

# The property that names a thing, and is made up where the program gives none.
NAMES: Final[Mapping[str, str]] = {
    "aws:autoscaling/group:Group": "name",
    "aws:budgets/budget:Budget": "name",
    "aws:cloudwatch/eventRule:EventRule": "name",
    "aws:cloudwatch/eventTarget:EventTarget": "targetId",
    "aws:cloudwatch/logGroup:LogGroup": "name",
    "aws:ec2/launchTemplate:LaunchTemplate": "name",
    "aws:ec2/securityGroup:SecurityGroup": "name",
    "aws:ecr/repository:Repository": "name",
    "aws:eks/cluster:Cluster": "name",
    "aws:iam/instanceProfile:InstanceProfile": "name",
    "aws:iam/policy:Policy": "name",
    "aws:iam/role:Role": "name",
    "aws:iam/rolePolicy:RolePolicy": "name",
    "aws:imagebuilder/component:Component": "name",
    "aws:imagebuilder/distributionConfiguration:DistributionConfiguration": "name",
    "aws:imagebuilder/imagePipeline:ImagePipeline": "name",
    "aws:imagebuilder/imageRecipe:ImageRecipe": "name",
    "aws:imagebuilder/infrastructureConfiguration:InfrastructureConfiguration": "name",
    "aws:kms/alias:Alias": "name",
    "aws:sns/topic:Topic": "name",
    "aws:sqs/queue:Queue": "name",
    "aws:ssm/parameter:Parameter": "name",
}
_NETWORK: Final = ("vpcId", "cidrBlock", "availabilityZone")
REPLACED: Final[Mapping[str, tuple[str, ...]]] = {
    "aws:ec2/vpc:Vpc": ("cidrBlock",),
    "aws:ec2/subnet:Subnet": _NETWORK,
    "aws:ec2/routeTable:RouteTable": ("vpcId",),
    "aws:ec2/routeTableAssociation:RouteTableAssociation": ("subnetId",),
    "aws:ec2/route:Route": ("routeTableId", "destinationCidrBlock", "destinationIpv6CidrBlock"),
    "aws:ec2/natGateway:NatGateway": ("subnetId", "allocationId"),
    "aws:ec2/securityGroup:SecurityGroup": ("vpcId", "description"),
    "aws:ec2/vpcEndpoint:VpcEndpoint": ("vpcId", "serviceName"),
    "aws:eks/accessEntry:AccessEntry": ("clusterName", "principalArn", "type"),
    "aws:eks/accessPolicyAssociation:AccessPolicyAssociation": ("clusterName", "principalArn", "policyArn"),
    "aws:eks/addon:Addon": ("clusterName", "addonName"),
    "aws:eks/cluster:Cluster": ("roleArn",),
    "aws:eks/podIdentityAssociation:PodIdentityAssociation": ("clusterName", "namespace", "serviceAccount"),
    "aws:iam/rolePolicy:RolePolicy": ("role",),
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment": ("role", "policyArn"),
    "aws:imagebuilder/component:Component": ("data", "version", "platform"),
    "aws:imagebuilder/imageRecipe:ImageRecipe": ("components", "parentImage", "version", "blockDeviceMappings"),
    "aws:sqs/queue:Queue": ("fifoQueue",),
    "aws:sqs/queuePolicy:QueuePolicy": ("queueUrl",),
}
# Types that take tags as a map, and so the provider's default tags too. Auto Scaling groups have a list of their own.
_TAGGED_SERVICES: Final = frozenset({"ec2", "ecr", "eks", "iam", "imagebuilder", "kms", "sns", "sqs", "ssm"})
_UNTAGGED: Final = frozenset(
    {
        "aws:ec2/route:Route",
        "aws:ec2/routeTableAssociation:RouteTableAssociation",
        "aws:ec2/securityGroupRule:SecurityGroupRule",
        "aws:ecr/lifecyclePolicy:LifecyclePolicy",
        "aws:eks/accessPolicyAssociation:AccessPolicyAssociation",
        "aws:iam/rolePolicy:RolePolicy",
        "aws:iam/rolePolicyAttachment:RolePolicyAttachment",
        "aws:kms/alias:Alias",
        "aws:sns/topicPolicy:TopicPolicy",
        "aws:sns/topicSubscription:TopicSubscription",
        "aws:sqs/queuePolicy:QueuePolicy",
    }
)
_TAGGED: Final = frozenset(
    {
        "aws:budgets/budget:Budget",
        "aws:cloudwatch/eventRule:EventRule",
        "aws:cloudwatch/logGroup:LogGroup",
        "aws:cloudwatch/metricAlarm:MetricAlarm",
    }
)


def check(asked: calls.Check, default_tags: Mapping[str, str]) -> calls.Checked:
    """Make up a name where there is none, and add the provider's tags."""
    news = dict(asked.news)
    named = NAMES.get(asked.resource.type)
    if named is not None and not news.get(named) and not news.get(f"{named}Prefix"):
        made_up = named in (asked.old_inputs.get(DEFAULTS) or ())
        suffix = hashlib.sha256(asked.seed).hexdigest()[:7]
        news[named] = asked.old_inputs[named] if made_up else _proper_name(asked.resource, suffix)
        news[DEFAULTS] = [named]
    if (
        default_tags
        and is_tagged(asked.resource.type)
        and not isinstance(news.get("tags"), (wire.Unknown, wire.Secret))
    ):
        news["tags"] = {**default_tags, **(news.get("tags") or {})}
    return calls.Checked(inputs=news)


def difference(asked: calls.Diff) -> calls.Difference:
    """Compare inputs, and tell which changes need a replacement; one with a name of its own is deleted first."""
    kind = asked.resource.type
    found = tuple(change for change in changes.between(asked.old_inputs, asked.news) if change.path[0] != DEFAULTS)
    named = NAMES.get(kind)
    fixed = {*REPLACED.get(kind, ()), *((named,) if named else ())}
    replacing = frozenset(change.path for change in found if change.path[0] in fixed)
    keeps_name = (
        named is not None
        and named not in (asked.news.get(DEFAULTS) or ())
        and wire.plain(asked.old_inputs.get(named)) == wire.plain(asked.news.get(named))
    )
    return calls.Difference(changes=found, replacing=replacing, delete_first=bool(replacing) and keeps_name)


def is_tagged(resource_type: str) -> bool:
    """Tell whether a type takes a map of tags."""
    service = resource_type.split(":")[1].partition("/")[0]
    return resource_type in _TAGGED or (service in _TAGGED_SERVICES and resource_type not in _UNTAGGED)


def _proper_name(resource: calls.Resource, suffix: str) -> str:
    name = f"{resource.name}-{suffix}"
    return f"alias/{name}" if resource.type == "aws:kms/alias:Alias" else name
