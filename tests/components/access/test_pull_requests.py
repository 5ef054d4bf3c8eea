import json
from typing import Any

from components.access import pull_requests
from tests.components import configs, monitor

KEY = "arn:aws:kms:eu-west-1:123456789012:key/1"
PROVIDER = "arn:aws:iam::123456789012:oidc-provider/token.actions.githubusercontent.com"


def run(**fields: Any) -> monitor.World:
    values = configs.values(pullRequests={"repository": "owner/name", "stateBucket": "state", **fields})
    stack = configs.load(values).stack
    assert stack.config.pull_requests is not None
    args = pull_requests.PullRequestRoleArgs(stack=stack, config=stack.config.pull_requests)
    return monitor.run(lambda: {"arn": pull_requests.PullRequestRole("pull-requests", args).role_arn})


def test_only_the_repositorys_pull_requests_may_take_the_role() -> None:
    world = run()
    (trusted,) = json.loads(world.one("iam/role:Role").inputs["assumeRolePolicy"])["Statement"]
    assert trusted["Principal"] == {"Federated": PROVIDER}
    assert trusted["Condition"] == {
        "StringEquals": {
            "token.actions.githubusercontent.com:aud": "sts.amazonaws.com",
            "token.actions.githubusercontent.com:sub": "repo:owner/name:pull_request",
        }
    }
    assert world.outputs["arn"] == "arn:aws:mock::Role/pull-requests"
    component = world.one("sluice:index:PullRequestRole")
    assert all(one.parent == component.urn for one in world.made if one.custom)


def test_the_identity_provider_is_made_before_the_role_unless_it_is_there() -> None:
    world = run()
    provider = world.one(":OpenIdConnectProvider")
    assert provider.inputs["url"] == "https://token.actions.githubusercontent.com"
    assert provider.inputs["clientIdLists"] == ["sts.amazonaws.com"]
    assert world.one("iam/role:Role").waits_for(provider)
    assert not run(oidcProviderArn=PROVIDER).of_type(":OpenIdConnectProvider")


def test_a_preview_reads_the_state_and_changes_nothing() -> None:
    policy = json.loads(run(secretsKeyArn=KEY).one(":RolePolicy").inputs["policy"])
    actions = {action for one in policy["Statement"] for action in one["Action"]}
    assert actions == {"s3:GetBucketLocation", "s3:ListBucket", "s3:GetObject", "kms:Decrypt"}
    state = [
        "arn:aws:s3:::state/.pulumi/meta.yaml",
        "arn:aws:s3:::state/.pulumi/stacks/sluice/test.json",
        "arn:aws:s3:::state/.pulumi/stacks/sluice/test.json.gz",
    ]
    found = {one["Sid"]: one["Resource"] for one in policy["Statement"]}
    assert found == {"FindState": "arn:aws:s3:::state", "ReadState": state, "DecryptState": KEY}


def test_without_a_key_there_is_nothing_to_decrypt() -> None:
    policy = json.loads(run().one(":RolePolicy").inputs["policy"])
    assert "kms:Decrypt" not in {action for one in policy["Statement"] for action in one["Action"]}
    assert all(one["Resource"] for one in policy["Statement"])
