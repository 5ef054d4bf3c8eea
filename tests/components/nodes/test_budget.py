import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.config.stack import Alarms
from components.nodes import budget
from tests.components import monitor, places

TOPIC = "arn:aws:sns:eu-west-1:123456789012:money"


def run(*, partition: str = "aws") -> monitor.World:
    args = budget.PoolBudgetArgs(
        place=places.place(partition=partition),
        pool_name="work",
        monthly_cost=500,
        alarms=Alarms.model_validate({"emails": ("b@x.org", "a@x.org"), "snsTopicArns": (TOPIC,)}),
    )
    return monitor.run(lambda: budget.PoolBudget("bench-work", args))


@pytest.mark.accept("P23")
def test_a_pool_has_a_monthly_budget_over_its_own_instances() -> None:
    world = run()
    made = world.one(":Budget")
    assert made.parent == world.one("sluice:index:PoolBudget").urn
    assert {key: made.inputs[key] for key in ("name", "budgetType", "timeUnit", "limitAmount", "limitUnit")} == {
        "name": "test-bench.work",
        "budgetType": "COST",
        "timeUnit": "MONTHLY",
        "limitAmount": "500",
        "limitUnit": "USD",
    }
    assert made.inputs["metrics"] == "UnblendedCost"
    tags = [one["tags"] for one in made.inputs["filterExpression"]["ands"]]
    assert tags == [
        {"key": "sluice.dev/instance-pool", "values": ["work"], "matchOptions": ["EQUALS"]},
        {"key": "kubernetes.io/cluster/test-bench", "values": ["owned"], "matchOptions": ["EQUALS"]},
    ]


@pytest.mark.accept("P23")
def test_people_are_told_before_and_when_the_limit_is_reached() -> None:
    notifications = run().one(":Budget").inputs["notifications"]
    told = [(one["notificationType"], one["threshold"], one["thresholdType"]) for one in notifications]
    assert told == [("ACTUAL", 80, "PERCENTAGE"), ("ACTUAL", 100, "PERCENTAGE"), ("FORECASTED", 100, "PERCENTAGE")]
    assert all(one["comparisonOperator"] == "GREATER_THAN" for one in notifications)
    assert all(one["subscriberEmailAddresses"] == ["a@x.org", "b@x.org"] for one in notifications)
    assert all(one["subscriberSnsTopicArns"] == [TOPIC] for one in notifications)


def test_china_pays_in_its_own_currency() -> None:
    assert run(partition="aws-cn").one(":Budget").inputs["limitUnit"] == "CNY"


NAMES = st.builds(lambda end: f"{'x' * 60}{end}", st.text("abc-", min_size=1, max_size=20)) | st.text(
    "abc-", min_size=1
)


@given(cluster=NAMES, one=NAMES, other=NAMES)
def test_names_fit_and_two_pools_never_share_one(cluster: str, one: str, other: str) -> None:
    names = {budget.budget_name(cluster, pool) for pool in (one, other)}
    assert all(len(name) <= budget.NAME_MAX for name in names)
    assert len(names) == len({one, other})
