"""EventBridge's documents, as its documentation shows them, and what is not one."""

import contextlib
import json
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies

from autoscaler.cloud import port
from autoscaler.cloud.aws import interruption_events

WHO = port.InstanceId("i-0123456789abcdef0")
GROUP = port.GroupName("bench.batch.eu-west-1b.m5.large")


def document(kind: str, detail: Any) -> str:
    return json.dumps(
        {
            "version": "0",
            "id": "12345678-1234-1234-1234-123456789012",
            "detail-type": kind,
            "source": "aws.ec2",
            "account": "123456789012",
            "time": "2026-01-01T00:00:00Z",
            "region": "eu-west-1",
            "resources": [f"arn:aws:ec2:eu-west-1b:instance/{WHO}"],
            "detail": detail,
        }
    )


def of_group() -> dict[str, Any]:
    return {
        "StatusCode": "Failed",
        "AutoScalingGroupName": GROUP,
        "ActivityId": "87654321-4321-4321-4321-210987654321",
        "Details": {"Availability Zone": "eu-west-1b", "Subnet ID": "subnet-12345678"},
        "StatusMessage": "",
        "EC2InstanceId": WHO,
        "Cause": "description-text",
    }


@pytest.mark.parametrize(
    ("body", "want"),
    [
        (
            document("EC2 Spot Instance Interruption Warning", {"instance-id": WHO, "instance-action": "terminate"}),
            port.SpotInterruption(instance=WHO),
        ),
        (
            document("EC2 Instance Rebalance Recommendation", {"instance-id": WHO}),
            port.RebalanceRecommended(instance=WHO),
        ),
        (
            document("EC2 Instance State-change Notification", {"instance-id": WHO, "state": "shutting-down"}),
            port.InstancesChanged(instances=(WHO,)),
        ),
        (document("EC2 Instance Launch Unsuccessful", of_group()), port.GroupChanged(group=GROUP)),
        (document("EC2 Instance Launch Successful", of_group()), port.GroupChanged(group=GROUP)),
        (document("EC2 Instance Terminate Successful", of_group()), port.GroupChanged(group=GROUP)),
        (
            document(
                "AWS Health Event",
                {
                    "service": "EC2",
                    "eventTypeCategory": "scheduledChange",
                    "startTime": "Thu, 01 Jan 2026 05:00:00 GMT",
                    "statusCode": "upcoming",
                    "affectedEntities": [{"entityValue": WHO, "status": "IMPAIRED"}, {"entityValue": "vol-1"}],
                },
            ),
            port.MaintenanceScheduled(instances=(WHO,), at=1767243600.0),
        ),
        (
            document(
                "AWS Health Event",
                {
                    "startTime": "Thu, 01 Jan 2026 05:00:00 GMT",
                    "statusCode": "closed",
                    "affectedEntities": [{"entityValue": WHO}],
                },
            ),
            None,
        ),
        (document("AWS Health Event", {"affectedEntities": [{"entityValue": "vol-1"}]}), None),
        (document("EC2 Instance Terminate Unsuccessful", of_group()), None),
        (document("Something New", {"anything": 1}), None),
    ],
)
def test_documents_are_told_in_our_words(body: str, want: port.Event | None) -> None:
    assert interruption_events.parse(body) == want


@pytest.mark.parametrize(
    "body",
    [
        "",
        "hello",
        "[]",
        "{}",
        "null",
        document("EC2 Spot Instance Interruption Warning", {"instance": WHO}),
        document("EC2 Spot Instance Interruption Warning", {"instance-id": 7}),
        document("AWS Health Event", {"affectedEntities": [WHO]}),
        "[" * 100_000,
    ],
)
def test_what_cannot_be_read_is_a_value_error(body: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        interruption_events.parse(body)


@hypothesis.given(
    strategies.text(max_size=200) | strategies.dictionaries(strategies.text(), strategies.text()).map(json.dumps)
)
def test_no_message_raises_anything_else(body: str) -> None:
    with contextlib.suppress(ValueError):
        interruption_events.parse(body)
