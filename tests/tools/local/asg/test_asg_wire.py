"""AWS's requests are read and its answers written, as botocore itself understands them."""

import json

import botocore.parsers
import botocore.session
import pytest

from tools.local.asg import asg_wire
from tools.local.asg.asg_orders import REFUSALS, Orders, Trouble
from tools.local.asg.asg_wire import Call, Refusal

SIGNED = {"Authorization": asg_wire.authorization("eu-west-1", "autoscaling")}


def test_a_form_tells_its_action_and_parameters() -> None:
    body = asg_wire.form("SetDesiredCapacity", {"AutoScalingGroupName": "a b", "DesiredCapacity": 3})
    call = asg_wire.call_of(SIGNED, body)
    assert (call.service, call.region, call.action) == ("autoscaling", "eu-west-1", "SetDesiredCapacity")
    assert (call.get("AutoScalingGroupName"), call.number("DesiredCapacity")) == ("a b", 3)
    assert call.number("MinSize") is None


@pytest.mark.parametrize(("text", "want"), [("true", True), ("True", True), ("false", False)])
def test_flags_are_read(text: str, want: bool) -> None:  # noqa: FBT001
    call = Call(service="", region="", action="", parameters={"ForceDelete": text})
    assert call.flag("ForceDelete") is want
    assert not call.flag("Other")


def test_a_target_tells_the_action_of_a_json_call() -> None:
    headers = {
        "Authorization": asg_wire.authorization("eu-west-1", "sqs"),
        "X-Amz-Target": "AmazonSQS.ReceiveMessage",
    }
    call = asg_wire.call_of(headers, b"{}")
    assert (call.service, call.action) == ("sqs", "ReceiveMessage")


@pytest.mark.parametrize(("service", "protocol"), [("autoscaling", "query"), ("ec2", "ec2")])
def test_a_refusal_is_what_botocore_reads_as_one(service: str, protocol: str) -> None:
    answer = asg_wire.refusal(service, Refusal(code="Throttling", message="Rate exceeded"))
    parser = botocore.parsers.create_parser(protocol)
    shape = (
        botocore.session.Session()
        .get_service_model(service)
        .operation_model("DescribeAutoScalingGroups" if service == "autoscaling" else "DescribeInstances")
    )
    assert shape.output_shape is not None
    read = parser.parse({"body": answer.body, "headers": {}, "status_code": answer.status}, shape.output_shape)
    assert read["Error"]["Code"] == "Throttling"
    assert read["Error"]["Message"] == "Rate exceeded"


def test_a_refusal_of_sqs_is_json() -> None:
    answer = asg_wire.refusal("sqs", Refusal(code="RequestThrottled", message="slow down"))
    assert json.loads(answer.body)["__type"].endswith("#RequestThrottled")


def test_an_answer_that_was_read_can_be_written_again() -> None:
    body = asg_wire.answer("SetDesiredCapacity").body
    again = asg_wire.written(asg_wire.parse(body))
    assert asg_wire.NAMESPACE.encode() in again
    assert b"ResponseMetadata" in again


def test_orders_are_met_oldest_first_as_often_as_ordered() -> None:
    orders = Orders()
    orders.add(Trouble.THROTTLE, "SetDesiredCapacity", times=2)
    orders.add(Trouble.BREAK, times=None)
    assert [orders.next("SetDesiredCapacity") for _ in range(3)] == [Trouble.THROTTLE, Trouble.THROTTLE, Trouble.BREAK]
    assert orders.next("DescribeAutoScalingGroups") is Trouble.BREAK
    orders.clear()
    assert orders.next("SetDesiredCapacity") is None


def test_capacity_is_withheld_by_zone_and_type() -> None:
    orders = Orders()
    orders.withhold(zone="eu-west-1b", instance_type="m5.large")
    orders.stop_offering(zone="eu-west-1b", instance_type="p3.8xlarge")
    assert "do not have sufficient m5.large" in (orders.obstacle("eu-west-1b", "m5.large") or "")
    assert "not supported in your requested" in (orders.obstacle("eu-west-1b", "p3.8xlarge") or "")
    assert orders.obstacle("eu-west-1a", "m5.large") is None
    orders.relieve()
    assert orders.obstacle("eu-west-1b", "m5.large") is None


def test_both_forms_of_throttling_are_known() -> None:
    assert {REFUSALS[one].code for one in (Trouble.THROTTLE, Trouble.LIMIT)} == {"Throttling", "RequestLimitExceeded"}
