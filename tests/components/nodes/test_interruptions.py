import json

from components.nodes import interruptions
from tests.components import monitor, places


def run() -> monitor.World:
    def program() -> dict[str, object]:
        made = interruptions.Interruptions("bench", interruptions.InterruptionsArgs(place=places.place()))
        return {"url": made.queue_url, "arn": made.queue_arn}

    return monitor.run(program)


def test_everything_is_made_once_under_the_component() -> None:
    world = run()
    assert world.types() == [
        *["aws:cloudwatch/eventRule:EventRule"] * 5,
        *["aws:cloudwatch/eventTarget:EventTarget"] * 5,
        "aws:sqs/queue:Queue",
        "aws:sqs/queuePolicy:QueuePolicy",
    ]
    component = world.one("sluice:index:Interruptions")
    assert all(one.parent == component.urn for one in world.made if one.custom)
    assert all(one.inputs["tags"] == places.OWNED for one in world.made if one.type.endswith(("Rule", ":Queue")))


def test_the_queue_is_encrypted_and_keeps_news_while_the_runtime_is_away() -> None:
    world = run()
    queue = world.one("sqs/queue:Queue").inputs
    assert queue["name"] == "test-bench-interruptions"
    assert queue["sqsManagedSseEnabled"] is True
    assert queue["messageRetentionSeconds"] == 3600
    assert queue["receiveWaitTimeSeconds"] == 20
    assert world.outputs == {"url": "https://sqs.example/bench", "arn": "arn:aws:mock::Queue/bench"}


def test_only_these_rules_may_fill_the_queue() -> None:
    world = run()
    policy = world.one(":QueuePolicy")
    allowed = json.loads(policy.inputs["policy"])["Statement"][0]
    rules = world.of_type(":EventRule")
    assert allowed["Condition"]["ArnEquals"]["aws:SourceArn"] == sorted(
        f"arn:aws:mock::EventRule/{rule.name}" for rule in rules
    )
    assert allowed["Resource"] == "arn:aws:mock::Queue/bench"
    assert policy.inputs["queueUrl"] == "https://sqs.example/bench"


def test_every_rule_leads_to_the_queue_once_it_may() -> None:
    world = run()
    policy = world.one(":QueuePolicy")
    targets = world.of_type(":EventTarget")
    assert {one.input_dependencies["rule"] for one in targets} == {
        frozenset({rule.urn}) for rule in world.of_type(":EventRule")
    }
    assert all(one.inputs["arn"] == "arn:aws:mock::Queue/bench" and one.waits_for(policy) for one in targets)


def test_the_rules_match_what_the_runtime_wants_to_know() -> None:
    made = {one.name: json.loads(one.inputs["eventPattern"]) for one in run().of_type(":EventRule")}
    assert {name: (pattern["source"], pattern["detail-type"]) for name, pattern in made.items()} == {
        "bench.spot": (["aws.ec2"], ["EC2 Spot Instance Interruption Warning"]),
        "bench.rebalance": (["aws.ec2"], ["EC2 Instance Rebalance Recommendation"]),
        "bench.state": (["aws.ec2"], ["EC2 Instance State-change Notification"]),
        "bench.groups": (
            ["aws.autoscaling"],
            [
                "EC2 Instance Launch Successful",
                "EC2 Instance Launch Unsuccessful",
                "EC2 Instance Terminate Successful",
                "EC2 Instance Terminate Unsuccessful",
            ],
        ),
        "bench.health": (["aws.health"], ["AWS Health Event"]),
    }
    assert made["bench.groups"]["detail"] == {"AutoScalingGroupName": [{"prefix": "test-bench."}]}
    assert made["bench.state"]["detail"]["state"] == ["stopping", "stopped", "shutting-down", "terminated"]
    assert made["bench.health"]["detail"] == {"service": ["EC2"], "eventTypeCategory": ["scheduledChange"]}
