"""The role under which a pull request's workflow previews the stack: it reads the state and can change nothing.

Only the pull requests of one repository may take it, by GitHub's own identity for each run; no key is stored there.
"""

import json
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from components.access import policies
from components.config import problems
from components.config.reading import Stack
from components.config.stack import PullRequests


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequestRoleArgs:
    """Which repository, and what its previews read."""

    stack: Stack
    config: PullRequests


class PullRequestRole(pulumi.ComponentResource):
    """The role, and GitHub's identity provider where the account has none yet."""

    def __init__(self, name: str, args: PullRequestRoleArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("sluice:index:PullRequestRole", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        after: list[pulumi.Resource] = []
        if args.config.oidc_provider_arn is None:
            after.append(
                aws.iam.OpenIdConnectProvider(
                    name, url=f"https://{policies.GITHUB}", client_id_lists=["sts.amazonaws.com"], opts=child
                )
            )
        trust = policies.pull_request_trust(
            partition=args.stack.partition,
            account=args.stack.config.account_id,
            repository=args.config.repository,
        )
        role = aws.iam.Role(
            name,
            assume_role_policy=json.dumps(trust),
            opts=pulumi.ResourceOptions(parent=self, depends_on=after),
        )
        aws.iam.RolePolicy(name, role=role.name, policy=json.dumps(document(args)), opts=child)
        self.role_arn: pulumi.Output[str] = role.arn
        self.register_outputs({"roleArn": role.arn})


def document(args: PullRequestRoleArgs) -> policies.Document:
    """Write what a preview may do."""
    bucket = f"arn:{args.stack.partition}:s3:::{args.config.state_bucket}"
    return policies.pull_request(
        bucket_arn=bucket, stack=f"{problems.NAMESPACE}/{args.stack.name}", key_arn=args.config.secrets_key_arn
    )
