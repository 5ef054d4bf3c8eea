"""A pool's money limit as AWS sees it: a monthly budget over the cost of the instances and disks that carry its tags.

It tells people; it stops nothing. The runtime keeps the limit by itself, from prices and seconds, and does not wait
for a bill. AWS counts a tag's cost only after the tag was activated for cost allocation in the billing settings.
"""

import hashlib
from dataclasses import dataclass
from typing import Final

import pulumi
import pulumi_aws as aws

from autoscaler.api import keys
from components.config.stack import Alarms
from components.place import Place

NAME_MAX: Final = 100
NOTIFICATIONS: Final = {"near": ("ACTUAL", 80), "reached": ("ACTUAL", 100), "expected": ("FORECASTED", 100)}
"""When people are told: by kind of cost, at a percentage of the limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolBudgetArgs:
    """Whose limit, and who is told."""

    place: Place
    pool_name: str
    monthly_cost: int
    """In whole units of the account's currency."""
    alarms: Alarms


class PoolBudget(pulumi.ComponentResource):
    """A monthly budget with its notifications."""

    def __init__(self, name: str, args: PoolBudgetArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("sluice:index:PoolBudget", name, None, opts)
        wanted = {keys.INSTANCE_POOL: args.pool_name, **args.place.owned}
        self.budget = aws.budgets.Budget(
            name,
            name=budget_name(args.place.cluster, args.pool_name),
            budget_type="COST",
            time_unit="MONTHLY",
            limit_amount=str(args.monthly_cost),
            limit_unit="CNY" if args.place.partition == "aws-cn" else "USD",
            metrics="UnblendedCost",
            filter_expression=aws.budgets.BudgetFilterExpressionArgs(
                ands=[
                    aws.budgets.BudgetFilterExpressionAndArgs(
                        tags=aws.budgets.BudgetFilterExpressionAndTagsArgs(
                            key=key, values=[value], match_options=["EQUALS"]
                        )
                    )
                    for key, value in wanted.items()
                ]
            ),
            notifications=[
                aws.budgets.BudgetNotificationArgs(
                    notification_type=kind,
                    threshold=percent,
                    threshold_type="PERCENTAGE",
                    comparison_operator="GREATER_THAN",
                    subscriber_email_addresses=sorted(args.alarms.emails),
                    subscriber_sns_topic_arns=sorted(args.alarms.sns_topic_arns),
                )
                for kind, percent in NOTIFICATIONS.values()
            ],
            tags=args.place.owned,
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.register_outputs({})


def budget_name(cluster: str, pool: str) -> str:
    """Name a budget; one that AWS would find too long ends with a digest, so that it is still nobody else's."""
    full = f"{cluster}.{pool}"
    if len(full) <= NAME_MAX:
        return full
    digest = hashlib.sha256(full.encode()).hexdigest()[:8]
    return f"{full[: NAME_MAX - len(digest) - 1]}-{digest}"
