import pulumi
import pulumi_aws as aws
import pytest

from tests.components import monitor


class Pair(pulumi.ComponentResource):
    """A network with a subnet."""

    def __init__(self, name: str, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("sluice:index:Pair", name, None, opts)
        options = pulumi.ResourceOptions(
            parent=self, ignore_changes=["tags"], custom_timeouts=pulumi.CustomTimeouts(create="5m")
        )
        self.vpc = aws.ec2.Vpc(name, tags={"a": pulumi.Output.secret("hidden")}, opts=options)
        aws.ec2.Subnet(name, vpc_id=self.vpc.id, opts=pulumi.ResourceOptions(parent=self))
        self.register_outputs({})


def program() -> dict[str, object]:
    provider = aws.Provider("aws", region="eu-west-1")
    made = Pair("pair", pulumi.ResourceOptions(providers=[provider]))
    pulumi.log.warn("look")
    return {"arn": made.vpc.arn, "secret": pulumi.Output.secret("hidden"), "found": pulumi.Config("sluice").get("key")}


def test_resources_are_remembered_with_their_options() -> None:
    world = monitor.run(program, config={"sluice:key": "value"})
    vpc, subnet, pair = world.one(":Vpc"), world.one(":Subnet", "pair"), world.one("index:Pair")
    assert (vpc.parent, vpc.ignore_changes, vpc.timeouts) == (pair.urn, ("tags",), {"create": "5m"})
    assert vpc.provider.startswith(world.one("providers:aws").urn)
    assert subnet.inputs == {"vpcId": "pair-id"}
    assert subnet.waits_for(vpc)
    assert subnet.input_dependencies["vpcId"] == {vpc.urn}
    assert world.by_urn(vpc.urn) is vpc
    assert world.types() == ["aws:ec2/subnet:Subnet", "aws:ec2/vpc:Vpc", "pulumi:providers:aws"]


def test_secrets_are_known_as_such() -> None:
    world = monitor.run(program)
    assert world.one(":Vpc").inputs["tags"] == {"a": "hidden"}
    assert world.one(":Vpc").secret_inputs == {"tags"}
    assert world.secret_outputs == {"secret"}
    assert "hidden" not in world.text()


def test_outputs_config_and_log_are_there() -> None:
    world = monitor.run(program, config={"sluice:key": "value"})
    assert world.outputs == {"arn": "arn:aws:mock::Vpc/pair", "secret": "hidden", "found": "value"}
    assert world.logs == ["look"]
    assert "found" not in monitor.run(program).outputs


def test_failures_of_the_program_come_out_and_leave_nothing_behind() -> None:
    def fail() -> None:
        program()
        raise LookupError("no")

    with pytest.raises(LookupError, match="no"):
        monitor.run(fail)
    assert len(monitor.run(program).made) == 4


def test_two_resources_under_one_urn_are_refused() -> None:
    with pytest.raises(AssertionError, match="two resources have the URN"):
        monitor.run(lambda: [aws.ec2.Vpc("a"), aws.ec2.Vpc("a")])
    assert len(monitor.run(program).made) == 4


def test_look_ups_are_refused() -> None:
    with pytest.raises(Exception, match="must not look anything up"):
        monitor.run(aws.get_caller_identity)
