"""Made-up outputs: names and ARNs of the configured account, and EKS clusters that are planes."""

import pytest

from tests.tools.engine import builders
from tools.engine.providers import calls
from tools.engine.providers.aws import plausible, settings

SETTINGS = settings.Settings(region="eu-west-1", account="111122223333", default_tags={})
PLANE = {"endpoint": "https://127.0.0.1:1", "certificateAuthority": "QQ=="}
OTHER = PLANE | {"endpoint": "https://127.0.0.1:2"}


def test_a_cluster_is_the_plane_of_its_name_or_the_default() -> None:
    resource = builders.resource("aws:eks/cluster:Cluster")
    clusters = {"*": PLANE, "other": OTHER}
    inputs = {"name": "bench", "vpcConfig": {"subnetIds": ["subnet-1"]}}

    identifier, outputs = plausible.made(resource, inputs, SETTINGS, clusters)
    _, others = plausible.made(resource, {"name": "other"}, SETTINGS, clusters)

    assert identifier == "bench"
    assert outputs["endpoint"] == "https://127.0.0.1:1"
    assert outputs["certificateAuthority"] == {"data": "QQ=="}
    assert outputs["arn"] == "arn:aws:eks:eu-west-1:111122223333:cluster/bench"
    assert outputs["vpcConfig"]["subnetIds"] == ["subnet-1"]
    assert outputs["vpcConfig"]["clusterSecurityGroupId"].startswith("sg-")
    assert outputs["identities"][0]["oidcs"][0]["issuer"].startswith("https://")
    assert others["endpoint"] == "https://127.0.0.1:2"


def test_a_cluster_that_nobody_plays_is_refused() -> None:
    with pytest.raises(calls.RefusedError, match="no API server plays the EKS cluster bench; the engine knows other"):
        plausible.made(builders.resource("aws:eks/cluster:Cluster"), {"name": "bench"}, SETTINGS, {"other": OTHER})


@pytest.mark.parametrize(
    ("resource_type", "inputs", "identifier", "arn"),
    [
        (
            "aws:iam/openIdConnectProvider:OpenIdConnectProvider",
            {"url": "https://token.example.com"},
            "arn:aws:iam::111122223333:oidc-provider/token.example.com",
            "arn:aws:iam::111122223333:oidc-provider/token.example.com",
        ),
        (
            "aws:budgets/budget:Budget",
            {"name": "b"},
            "111122223333:b",
            "arn:aws:budgets::111122223333:budget/b",
        ),
        (
            "aws:imagebuilder/component:Component",
            {"name": "c", "version": "1.0.0"},
            "arn:aws:imagebuilder:eu-west-1:111122223333:component/c/1.0.0",
            "arn:aws:imagebuilder:eu-west-1:111122223333:component/c/1.0.0",
        ),
        ("aws:new/thing:Thing", {"name": "t"}, "t", "arn:aws:new:eu-west-1:111122223333:thing/t"),
    ],
)
def test_identifiers_and_arns_are_of_the_account(
    resource_type: str, inputs: dict[str, str], identifier: str, arn: str
) -> None:
    made, outputs = plausible.made(builders.resource(resource_type), inputs, SETTINGS, {})
    assert (made, outputs["arn"]) == (identifier, arn)


def test_two_of_a_kind_do_not_share_an_identifier() -> None:
    resource = builders.resource("aws:ec2/natGateway:NatGateway")
    first, _ = plausible.made(resource, {}, SETTINGS, {})
    second, _ = plausible.made(resource, {}, SETTINGS, {})
    assert first.startswith("nat-")
    assert first != second


def test_settings_come_as_json_inside_text() -> None:
    sent = {"allowedAccountIds": '["111122223333"]', "defaultTags": '{"tags": {"a": "b"}}', "region": "us-east-1"}
    found = settings.Settings.of(sent, {"AWS_REGION": "eu-west-1"})
    assert found == settings.Settings(
        region="us-east-1", account="111122223333", default_tags={"a": "b"}, allowed_accounts=("111122223333",)
    )
    assert settings.Settings.of({}, {}).allowed_accounts == ()
    assert settings.Settings.of({}, {"AWS_REGION": "eu-west-2"}).region == "eu-west-2"
