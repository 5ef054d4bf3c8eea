"""The runtime's rights in AWS are bound to what the config declares."""

from typing import Any

import pytest

from components.config.clusters import Cluster
from components.runtime import runtime_rights
from tests.components import accesses, places

QUEUE = "arn:aws:sqs:eu-west-1:123456789012:test-bench"


def statements(config: Cluster, queue: str | None = QUEUE) -> dict[str, Any]:
    document = runtime_rights.document(config, places.place(), interruption_queue_arn=queue)
    return {statement["Sid"]: statement for statement in document["Statement"]}


def worker_pool(**source: str) -> dict[str, Any]:
    template = {"source": {"name": "w"}, "containerName": "w"}
    return {
        "poolCapacity": 1,
        "queue": {"interval": "00:00:10", "source": source},
        "workerSpec": {"idleTimeoutMinutes": 1, "podTemplate": template},
    }


def config(*sources: dict[str, str], **fields: Any) -> Cluster:
    pools = {f"p{index}": worker_pool(**source) for index, source in enumerate(sources)}
    autoscaler = {"scope": "cluster", **fields.pop("autoscaler", {})}
    return accesses.config(workerPools={"lab": pools}, autoscaler=autoscaler, **fields)


@pytest.mark.accept("S6")
def test_scaling_is_bound_to_the_clusters_tag_and_reading_its_queue_to_that_queue() -> None:
    made = statements(accesses.config())
    assert set(made) == {"Describe", "Scale", "Images", "Interruptions"}
    assert made["Interruptions"]["Resource"] == QUEUE
    assert made["Scale"]["Condition"] == {
        "StringEquals": {f"aws:ResourceTag/kubernetes.io/cluster/{places.CLUSTER}": "owned"}
    }


def test_declared_sqs_queues_may_be_asked_and_no_others() -> None:
    url = "https://sqs.us-east-1.amazonaws.com/999999999999/jobs"
    made = statements(
        config(
            {"type": "sqs", "endpoint": url},
            {"type": "sqs", "endpoint": "https://queue.example/somewhere"},
            {"endpoint": "https://sqs.eu-west-1.amazonaws.com/123456789012/page"},
        )
    )
    assert made["WorkerQueues"]["Resource"] == ["arn:aws:sqs:us-east-1:999999999999:jobs"]


def test_declared_provider_roles_may_be_assumed() -> None:
    role = "arn:aws:iam::999999999999:role/lender"
    made = statements(
        accesses.config(providerAccounts={"x": {"provider": "aws", "region": "eu-west-1", "roleArn": role}})
    )
    assert made["ProviderAccounts"]["Resource"] == [role]


@pytest.mark.accept("G14")
def test_without_the_capacity_controller_there_is_nothing_to_do_in_aws() -> None:
    assert statements(accesses.config(autoscaler={"nodeScaler": "cluster-autoscaler"}), None) == {}
