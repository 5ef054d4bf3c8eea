"""IAM documents: who may assume a role, and what a role may do. Pure: plain values in, plain documents out.

No document holds a wildcard action. What writes is bound to the cluster's tag, or to named resources. What only reads
may read everything, since AWS knows no narrower bound for most Describe calls.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from autoscaler.api import controllers as registry
from autoscaler.api import keys
from autoscaler.api.permissions import AwsResource
from components.place import Place

Document = dict[str, Any]
"""An IAM document, ready to be written as JSON."""
Statement = dict[str, Any]

GITHUB: Final = "token.actions.githubusercontent.com"
_OWNED: Final = "owned"


class Managed(StrEnum):
    """Policies that AWS keeps, by name; `arn` makes them a partition's."""

    EKS_CLUSTER = "AmazonEKSClusterPolicy"
    EKS_WORKER_NODE = "AmazonEKSWorkerNodePolicy"
    EKS_CNI = "AmazonEKS_CNI_Policy"
    ECR_PULL = "AmazonEC2ContainerRegistryPullOnly"
    EBS_CSI = "service-role/AmazonEBSCSIDriverPolicy"
    SSM_INSTANCE = "AmazonSSMManagedInstanceCore"
    IMAGE_BUILDER = "EC2InstanceProfileForImageBuilder"

    def arn(self, partition: str = "aws") -> str:
        """Name the policy in a partition."""
        return f"arn:{partition}:iam::aws:policy/{self.value}"


NODE: Final = (Managed.EKS_WORKER_NODE, Managed.ECR_PULL)
"""What a node's role may do. Pods cannot use it: they reach no instance metadata. The CNI has a role of its own."""
IMAGE_BUILD: Final = (Managed.IMAGE_BUILDER, Managed.SSM_INSTANCE, Managed.ECR_PULL)
"""What an instance that builds an image may do: take its orders, write its log, pull the images it preloads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeBounds:
    """What the runtime's rights are bound to; what is left empty is not granted."""

    interruption_queue_arn: str | None = None
    worker_queue_arns: Sequence[str] = field(default=())
    """SQS queues whose length worker pools follow."""
    provider_role_arns: Sequence[str] = field(default=())
    """Roles of provider accounts."""


# Who may assume a role


def instance_trust(*, partition: str = "aws") -> Document:
    """Let EC2 instances have a role: nodes, and instances that build images."""
    suffix = "amazonaws.com.cn" if partition == "aws-cn" else "amazonaws.com"
    return _document(_trust("Instances", {"Service": f"ec2.{suffix}"}, ["sts:AssumeRole"]))


def cluster_trust(place: Place) -> Document:
    """Let EKS act for this one cluster."""
    return _document(_trust("Cluster", {"Service": "eks.amazonaws.com"}, ["sts:AssumeRole"], _from_cluster(place)))


def pod_trust(place: Place, *, namespace: str, service_account: str) -> Document:
    """Let the pods of one ServiceAccount of this cluster have a role, by EKS Pod Identity."""
    condition = _from_cluster(place)
    condition["StringEquals"] |= {
        "aws:RequestTag/kubernetes-namespace": namespace,
        "aws:RequestTag/kubernetes-service-account": service_account,
    }
    service = {"Service": "pods.eks.amazonaws.com"}
    return _document(_trust("Pods", service, ["sts:AssumeRole", "sts:TagSession"], condition))


def pull_request_trust(*, partition: str = "aws", account: str, repository: str) -> Document:
    """Let the pull requests of one GitHub repository (ORG/NAME) have a role, and nothing else of it."""
    provider = f"arn:{partition}:iam::{account}:oidc-provider/{GITHUB}"
    claims = {f"{GITHUB}:aud": "sts.amazonaws.com", f"{GITHUB}:sub": f"repo:{repository}:pull_request"}
    return _document(
        _trust("PullRequests", {"Federated": provider}, ["sts:AssumeRoleWithWebIdentity"], {"StringEquals": claims})
    )


# What a role may do


def runtime(place: Place, controllers: Iterable[str], bounds: RuntimeBounds) -> Document:
    """Let the runtime do what its controllers need, by the registry of controllers.

    Where they need nothing it has no statement, and AWS would refuse it: there is no policy to make then.
    """
    actions: dict[AwsResource, set[str]] = defaultdict(set)
    for rule in registry.aws_rules(controllers):
        actions[rule.resource].update(rule.actions)
    statements = [
        _allow(
            _SIDS[kind], sorted(actions[kind]), bound, _tagged(place) if kind is AwsResource.CLUSTER_TAGGED else None
        )
        for kind in AwsResource
        if kind in actions and (bound := _bound(kind, place, bounds))
    ]
    return _document(*statements)


def cluster_autoscaler(place: Place) -> Document:
    """Let the upstream cluster-autoscaler do what it documents for discovered groups, and scale only this cluster's."""
    describes = [
        "autoscaling:DescribeAutoScalingGroups",
        "autoscaling:DescribeAutoScalingInstances",
        "autoscaling:DescribeLaunchConfigurations",
        "autoscaling:DescribeScalingActivities",
        "autoscaling:DescribeTags",
        "ec2:DescribeImages",
        "ec2:DescribeInstanceTypes",
        "ec2:DescribeLaunchTemplateVersions",
        "ec2:GetInstanceTypesFromInstanceRequirements",
    ]
    scales = ["autoscaling:SetDesiredCapacity", "autoscaling:TerminateInstanceInAutoScalingGroup"]
    return _document(
        _allow("Describe", describes, "*"),
        _allow("DescribeNodegroups", ["eks:DescribeNodegroup"], place.arn("eks", f"nodegroup/{place.cluster}/*")),
        _allow("Scale", scales, _groups(place), _tagged(place)),
    )


def pull_request(*, bucket_arn: str, stack: str, key_arn: str | None) -> Document:
    """Let a preview read this stack's state and decrypt its secrets, if a key of KMS encrypts them; no more than that.

    The stack is PROJECT/NAME. Pulumi keeps its state under this name, zipped or not, beside what it says of the bucket.
    """
    kept = (".pulumi/meta.yaml", f".pulumi/stacks/{stack}.json", f".pulumi/stacks/{stack}.json.gz")
    return _document(
        _allow("FindState", ["s3:GetBucketLocation", "s3:ListBucket"], bucket_arn),
        _allow("ReadState", ["s3:GetObject"], [f"{bucket_arn}/{key}" for key in kept]),
        *((_allow("DecryptState", ["kms:Decrypt"], key_arn),) if key_arn else ()),
    )


# What a resource lets others do


def interruption_queue(*, queue_arn: str, rule_arns: Sequence[str]) -> Document:
    """Let the stack's own EventBridge rules send to its queue, and nobody talk to it in the clear."""
    return _document(
        {
            **_allow("Events", ["sqs:SendMessage"], queue_arn, {"ArnEquals": {"aws:SourceArn": sorted(rule_arns)}}),
            "Principal": {"Service": "events.amazonaws.com"},
        },
        {
            "Sid": "OnlyEncrypted",
            "Effect": "Deny",
            "Principal": "*",
            "Action": list(_QUEUE_ACTIONS),
            "Resource": queue_arn,
            "Condition": {"Bool": {"aws:SecureTransport": "false"}},
        },
    )


def kms_key(place: Place, *, cluster_role_arn: str) -> Document:
    """Let the account administer a key by IAM, and the cluster's role use it for Secrets and nothing else.

    EKS makes its own grant as whoever creates the cluster, so that CreateGrant must not be bound to services of AWS.
    """
    root = f"arn:{place.partition}:iam::{place.account}:root"
    uses = ["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:ListGrants"]
    return _document(
        {**_allow("Administration", _KEY_ADMINISTRATION, "*"), "Principal": {"AWS": root}},
        {**_allow("Secrets", uses, "*"), "Principal": {"AWS": cluster_role_arn}},
    )


_QUEUE_ACTIONS: Final = (
    "sqs:ChangeMessageVisibility",
    "sqs:DeleteMessage",
    "sqs:GetQueueAttributes",
    "sqs:PurgeQueue",
    "sqs:ReceiveMessage",
    "sqs:SendMessage",
    "sqs:SetQueueAttributes",
)
"""All that matters; a queue's policy takes seven actions a statement."""

_KEY_ADMINISTRATION: Final = (
    "kms:CancelKeyDeletion",
    "kms:CreateAlias",
    "kms:CreateGrant",
    "kms:DeleteAlias",
    "kms:DescribeKey",
    "kms:DisableKey",
    "kms:DisableKeyRotation",
    "kms:EnableKey",
    "kms:EnableKeyRotation",
    "kms:GetKeyPolicy",
    "kms:GetKeyRotationStatus",
    "kms:ListGrants",
    "kms:ListKeyPolicies",
    "kms:ListResourceTags",
    "kms:PutKeyPolicy",
    "kms:RevokeGrant",
    "kms:ScheduleKeyDeletion",
    "kms:TagResource",
    "kms:UntagResource",
    "kms:UpdateAlias",
    "kms:UpdateKeyDescription",
)


def _document(*statements: Statement) -> Document:
    return {"Version": "2012-10-17", "Statement": list(statements)}


def _allow(
    sid: str, actions: Sequence[str], resource: str | Sequence[str], condition: Statement | None = None
) -> Statement:
    return {
        "Sid": sid,
        "Effect": "Allow",
        "Action": sorted(actions),
        "Resource": resource if isinstance(resource, str) else sorted(resource),
        **({"Condition": condition} if condition else {}),
    }


def _trust(sid: str, principal: Statement, actions: Sequence[str], condition: Statement | None = None) -> Statement:
    return {
        "Sid": sid,
        "Effect": "Allow",
        "Principal": principal,
        "Action": list(actions),
        **({"Condition": condition} if condition else {}),
    }


def _from_cluster(place: Place) -> Statement:
    """Demand that AWS acts for this cluster, not for somebody else's who knows the role's name."""
    source = place.arn("eks", f"cluster/{place.cluster}")
    return {"StringEquals": {"aws:SourceAccount": place.account}, "ArnEquals": {"aws:SourceArn": source}}


def _groups(place: Place) -> str:
    return place.arn("autoscaling", "autoScalingGroup:*:autoScalingGroupName/*")


def _tagged(place: Place) -> Statement:
    return {"StringEquals": {f"aws:ResourceTag/{keys.cluster_tag(place.cluster)}": _OWNED}}


_SIDS: Final = {
    AwsResource.ANY: "Describe",
    AwsResource.CLUSTER_TAGGED: "Scale",
    AwsResource.IMAGE_PARAMETERS: "Images",
    AwsResource.INTERRUPTION_QUEUE: "Interruptions",
    AwsResource.WORKER_QUEUES: "WorkerQueues",
    AwsResource.PROVIDER_ROLES: "ProviderAccounts",
}


def _bound(kind: AwsResource, place: Place, bounds: RuntimeBounds) -> str | Sequence[str] | None:
    """Return the resources of a kind; nothing where the stack has none, and then there is no right either."""
    match kind:
        case AwsResource.ANY:
            return "*"
        case AwsResource.CLUSTER_TAGGED:
            return _groups(place)
        case AwsResource.IMAGE_PARAMETERS:
            public = f"arn:{place.partition}:ssm:{place.region}::parameter/aws/service/*"
            return [public, place.arn("ssm", "parameter/imagebuilder/sluice/*")]
        case AwsResource.INTERRUPTION_QUEUE:
            return bounds.interruption_queue_arn
        case AwsResource.WORKER_QUEUES:
            return bounds.worker_queue_arns
        case AwsResource.PROVIDER_ROLES:
            return bounds.provider_role_arns
