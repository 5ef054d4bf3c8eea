"""IAM documents, every one of them walked: no wildcard action, every write bound to a tag or to names."""

import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.api import controllers as registry
from components.access import policies
from components.place import Place

PLACE = Place(account="123456789012", partition="aws", region="eu-west-1", cluster="bench")
QUEUE = "arn:aws:sqs:eu-west-1:123456789012:bench-interruptions"
WORK = "arn:aws:sqs:eu-west-1:123456789012:work"
ROLE = "arn:aws:iam::210987654321:role/sluice"
KEY = "arn:aws:kms:eu-west-1:123456789012:key/0123"
BUCKET = "arn:aws:s3:::state"
RULES = [f"arn:aws:events:eu-west-1:123456789012:rule/bench-{name}" for name in ("spot", "launch")]
BOUNDS = policies.RuntimeBounds(interruption_queue_arn=QUEUE, worker_queue_arns=(WORK,), provider_role_arns=(ROLE,))


def runtime(
    place: Place = PLACE,
    controllers: tuple[str, ...] = tuple(registry.CONTROLLERS),
    bounds: policies.RuntimeBounds = BOUNDS,
) -> policies.Document:
    return policies.runtime(place, controllers, bounds)


TRUSTS = {
    "instance": policies.instance_trust(),
    "cluster": policies.cluster_trust(PLACE),
    "pod": policies.pod_trust(PLACE, namespace="sluice", service_account="runtime"),
    "pull request": policies.pull_request_trust(account="123456789012", repository="org/name"),
}
RIGHTS = {
    "runtime": runtime(),
    "cluster-autoscaler": policies.cluster_autoscaler(PLACE),
    "pull request": policies.pull_request(bucket_arn=BUCKET, stack="sluice/dev", key_arn=KEY),
}
OF_RESOURCES = {
    "interruption queue": policies.interruption_queue(queue_arn=QUEUE, rule_arns=RULES),
    "key": policies.kms_key(PLACE, cluster_role_arn="arn:aws:iam::123456789012:role/bench"),
}
ALL = [*TRUSTS.values(), *RIGHTS.values(), *OF_RESOURCES.values()]
READS = re.compile(r"[a-z0-9]+:(Describe|Get|List)[A-Za-z]+")
READS_OF_DATA = {"s3:GetObject", "secretsmanager:GetSecretValue", "ssm:GetParameter"}
"""Get in name, but not harmless: these need a bound like a write."""


def statements(document: policies.Document) -> Iterator[policies.Statement]:
    yield from document["Statement"]


def resources(statement: policies.Statement) -> list[str]:
    named: Any = statement["Resource"]
    return [named] if isinstance(named, str) else named


def is_read(action: str) -> bool:
    return READS.fullmatch(action) is not None and action not in READS_OF_DATA


def has_tag_condition(statement: policies.Statement) -> bool:
    equal = statement.get("Condition", {}).get("StringEquals", {})
    return ("aws:ResourceTag/kubernetes.io/cluster/bench", "owned") in equal.items()


@pytest.mark.accept("S6")
def test_no_document_escapes_these_tests() -> None:
    made = {
        name for name, each in inspect.getmembers(policies, inspect.isfunction) if each.__module__ == policies.__name__
    }
    public = {name for name in made if not name.startswith("_")}
    trusts = {f"{name.replace(' ', '_')}_trust" for name in TRUSTS}
    rights = {name.replace(" ", "_").replace("-", "_") for name in RIGHTS}
    assert public == trusts | rights | {"interruption_queue", "kms_key"}


@pytest.mark.parametrize("module", ["access.policies", "access.rbac", "place", "regions.offerings", "userdata"])
def test_what_is_pure_does_without_pulumi(module: str) -> None:
    code = f"import sys, components.{module}; sys.exit(any(name.startswith('pulumi') for name in sys.modules))"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[3])


@pytest.mark.accept("S6")
@pytest.mark.parametrize("document", ALL, ids=str)
def test_every_document_is_well_formed_and_names_each_action(document: policies.Document) -> None:
    assert document["Version"] == "2012-10-17"
    sids = [statement["Sid"] for statement in statements(document)]
    assert sids
    assert len(set(sids)) == len(sids)
    assert all(re.fullmatch("[A-Za-z0-9]+", sid) for sid in sids)
    for statement in statements(document):
        assert statement["Action"]
        assert all(re.fullmatch("[a-z0-9]+:[A-Za-z]+", action) for action in statement["Action"])
        assert statement["Action"] == sorted(set(statement["Action"]))
        assert not {"NotAction", "NotResource", "NotPrincipal"} & statement.keys()


@pytest.mark.accept("S6")
@pytest.mark.parametrize("document", RIGHTS.values(), ids=RIGHTS)
def test_what_writes_is_bound_to_the_clusters_tag_or_to_names(document: policies.Document) -> None:
    for statement in statements(document):
        if all(is_read(action) for action in statement["Action"]):
            continue
        for resource in resources(statement):
            assert resource != "*"
            assert "*" not in resource or has_tag_condition(statement) or resource == f"{BUCKET}/*"


@pytest.mark.accept("S6")
@pytest.mark.parametrize("document", [RIGHTS["runtime"], RIGHTS["cluster-autoscaler"]], ids=["runtime", "upstream"])
def test_scaling_is_bound_to_this_clusters_groups_in_this_account_and_region(document: policies.Document) -> None:
    (scale,) = (each for each in statements(document) if "autoscaling:SetDesiredCapacity" in each["Action"])
    assert has_tag_condition(scale)
    assert scale["Resource"] == ("arn:aws:autoscaling:eu-west-1:123456789012:autoScalingGroup:*:autoScalingGroupName/*")
    assert scale["Action"] == ["autoscaling:SetDesiredCapacity", "autoscaling:TerminateInstanceInAutoScalingGroup"]


@pytest.mark.accept("S6")
@pytest.mark.parametrize("controllers", [(each,) for each in registry.CONTROLLERS] + [tuple(registry.CONTROLLERS)])
def test_the_runtime_gets_the_actions_of_its_controllers_and_no_other(controllers: tuple[str, ...]) -> None:
    want = {action for rule in registry.aws_rules(controllers) for action in rule.actions}
    document = policies.runtime(PLACE, controllers, BOUNDS)
    found = {action for each in statements(document) for action in each["Action"]}
    assert found == want


def test_a_runtime_without_need_of_aws_gets_no_statement() -> None:
    assert not list(statements(policies.runtime(PLACE, [], BOUNDS)))
    assert not list(statements(policies.runtime(PLACE, ["workers"], policies.RuntimeBounds())))


def test_what_the_stack_does_not_have_is_not_granted() -> None:
    sids = [each["Sid"] for each in statements(runtime(bounds=policies.RuntimeBounds()))]
    assert sids == ["Describe", "Scale", "Images"]
    bound = {each["Sid"]: resources(each) for each in statements(runtime())}
    assert (bound["Interruptions"], bound["WorkerQueues"], bound["ProviderAccounts"]) == ([QUEUE], [WORK], [ROLE])


@pytest.mark.accept("G14")
def test_the_upstream_autoscaler_may_do_what_it_documents() -> None:
    document = RIGHTS["cluster-autoscaler"]
    found = {action for each in statements(document) for action in each["Action"]}
    want = {"autoscaling:DescribeAutoScalingGroups", "autoscaling:DescribeTags", "ec2:DescribeLaunchTemplateVersions"}
    assert want | {"autoscaling:SetDesiredCapacity", "autoscaling:TerminateInstanceInAutoScalingGroup"} <= found


@pytest.mark.parametrize("trust", [TRUSTS["cluster"], TRUSTS["pod"]], ids=["cluster", "pod"])
def test_a_service_of_aws_may_act_for_this_cluster_alone(trust: policies.Document) -> None:
    (statement,) = statements(trust)
    assert statement["Condition"]["ArnEquals"] == {"aws:SourceArn": "arn:aws:eks:eu-west-1:123456789012:cluster/bench"}
    assert statement["Condition"]["StringEquals"]["aws:SourceAccount"] == "123456789012"


def test_pods_of_one_service_account_may_have_the_role() -> None:
    (statement,) = statements(TRUSTS["pod"])
    assert statement["Principal"] == {"Service": "pods.eks.amazonaws.com"}
    assert statement["Action"] == ["sts:AssumeRole", "sts:TagSession"]
    equal = statement["Condition"]["StringEquals"]
    assert equal["aws:RequestTag/kubernetes-namespace"] == "sluice"
    assert equal["aws:RequestTag/kubernetes-service-account"] == "runtime"


def test_pull_requests_of_one_repository_may_read_the_state_and_nothing_else() -> None:
    (trust,) = statements(TRUSTS["pull request"])
    assert trust["Principal"] == {
        "Federated": "arn:aws:iam::123456789012:oidc-provider/token.actions.githubusercontent.com"
    }
    assert trust["Condition"] == {
        "StringEquals": {
            "token.actions.githubusercontent.com:aud": "sts.amazonaws.com",
            "token.actions.githubusercontent.com:sub": "repo:org/name:pull_request",
        }
    }
    allowed = {
        (action, resource)
        for each in statements(RIGHTS["pull request"])
        for action in each["Action"]
        for resource in resources(each)
    }
    assert allowed == {
        ("s3:GetBucketLocation", BUCKET),
        ("s3:ListBucket", BUCKET),
        ("s3:GetObject", f"{BUCKET}/.pulumi/meta.yaml"),
        ("s3:GetObject", f"{BUCKET}/.pulumi/stacks/sluice/dev.json"),
        ("s3:GetObject", f"{BUCKET}/.pulumi/stacks/sluice/dev.json.gz"),
        ("kms:Decrypt", KEY),
    }


def test_only_the_stacks_rules_send_to_the_interruption_queue_and_nobody_in_the_clear() -> None:
    send, deny = statements(OF_RESOURCES["interruption queue"])
    assert send["Principal"] == {"Service": "events.amazonaws.com"}
    assert send["Condition"] == {"ArnEquals": {"aws:SourceArn": sorted(RULES)}}
    assert (send["Action"], send["Resource"]) == (["sqs:SendMessage"], QUEUE)
    assert (deny["Effect"], deny["Condition"]) == ("Deny", {"Bool": {"aws:SecureTransport": "false"}})
    assert {"sqs:SendMessage", "sqs:ReceiveMessage", "sqs:DeleteMessage"} <= set(deny["Action"])
    assert len(deny["Action"]) <= 7  # more than a queue's policy takes


def test_a_key_can_be_administered_but_used_only_by_the_cluster() -> None:
    by_sid = {each["Sid"]: each for each in statements(OF_RESOURCES["key"])}
    assert "kms:PutKeyPolicy" in by_sid["Administration"]["Action"]  # or nobody could ever change it
    assert not {"kms:Decrypt", "kms:Encrypt"} & set(by_sid["Administration"]["Action"])
    assert by_sid["Secrets"]["Principal"] == {"AWS": "arn:aws:iam::123456789012:role/bench"}


def test_who_creates_a_cluster_may_grant_eks_the_use_of_its_key() -> None:
    by_sid = {each["Sid"]: each for each in statements(OF_RESOURCES["key"])}
    assert set(by_sid) == {"Administration", "Secrets"}
    assert "kms:CreateGrant" in by_sid["Administration"]["Action"]
    assert by_sid["Administration"]["Principal"] == {"AWS": "arn:aws:iam::123456789012:root"}
    assert "kms:GrantIsForAWSResource" not in json.dumps(ALL)  # EKS itself is not covered by it: no cluster would be


@pytest.mark.parametrize("partition", ["aws", "aws-cn", "aws-us-gov"])
def test_documents_stay_within_their_partition(partition: str) -> None:
    place = Place(partition=partition, account="123456789012", region="cn-north-1", cluster="bench")
    documents = [
        runtime(place, bounds=policies.RuntimeBounds()),
        policies.cluster_autoscaler(place),
        policies.cluster_trust(place),
        policies.pod_trust(place, namespace="n", service_account="s"),
        policies.pull_request_trust(partition=partition, account="123456789012", repository="o/n"),
    ]
    named = re.findall(r"arn:([a-z-]+):", json.dumps(documents))
    assert named
    assert set(named) == {partition}


@pytest.mark.parametrize(("partition", "want"), [("aws", "ec2.amazonaws.com"), ("aws-cn", "ec2.amazonaws.com.cn")])
def test_instances_are_known_by_their_partitions_name(partition: str, want: str) -> None:
    (statement,) = statements(policies.instance_trust(partition=partition))
    assert statement["Principal"] == {"Service": want}


@pytest.mark.parametrize("managed", policies.Managed)
def test_managed_policies_are_awss_own(managed: policies.Managed) -> None:
    assert managed.arn("aws-cn") == f"arn:aws-cn:iam::aws:policy/{managed.value}"
    assert managed in {*policies.NODE, *policies.IMAGE_BUILD} or managed.name in {"EKS_CLUSTER", "EKS_CNI", "EBS_CSI"}


@given(st.permutations(list(registry.CONTROLLERS)), st.permutations(RULES))
def test_documents_do_not_depend_on_order(controllers: list[str], rules: list[str]) -> None:
    assert json.dumps(runtime(controllers=tuple(controllers))) == json.dumps(RIGHTS["runtime"])
    queue = policies.interruption_queue(queue_arn=QUEUE, rule_arns=rules)
    assert json.dumps(queue) == json.dumps(OF_RESOURCES["interruption queue"])
