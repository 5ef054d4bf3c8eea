"""What pools and scopes say of their budgets: the worst of them, in few steps, and no number from who does not act."""

import dataclasses
from typing import Any

import msgspec
import pytest

from autoscaler import control
from autoscaler.api.resources.scopes import Scope
from autoscaler.capacity.accounts import account_reader
from autoscaler.capacity.model import Limit
from autoscaler.capacity.model import LimitKind as Kind
from autoscaler.capacity.records import accounting
from autoscaler.capacity.reporting import budget_events, pool_status, status_writer
from autoscaler.capacity.scaleup.limits.budgets import State
from autoscaler.capacity.snapshot import ScopeUse
from autoscaler.control import metrics
from autoscaler.kube import objects, store
from tests import builders

NOBODY: Any = None
TO_DATE = accounting.MonthToDate(month="2026-01")


def budget(
    used: int, *, kind: Kind = Kind.SCOPE_SECONDS, expected: int = 0, pool: str = "gpu", limit: int = 1000
) -> Limit:
    scope = "research" if kind is Kind.SCOPE_SECONDS else ""
    return Limit(kind=kind, pool=pool, scope=scope, most=limit, used=used, expected=expected, each=100)


def said(*found: Limit, scope: Scope | None = None) -> dict[str, Any]:
    month = pool_status.Month(to_date=TO_DATE, limits=found)
    given = scope or Scope.model_validate(builders.resource("Scope"))
    return pool_status.scope_changes(given, month, 0, {}, use=ScopeUse(), now=0.0)


@pytest.mark.parametrize(
    ("used", "expected", "want"),
    [
        (0, 0, set()),
        (800, 0, {State.NEAR}),
        (100, 850, {State.COMMITTED}),
        (850, 100, {State.NEAR, State.COMMITTED}),
        (1000, 0, {State.NEAR, State.COMMITTED, State.SPENT}),
    ],
)
def test_each_thing_that_a_person_should_know_is_told_on_its_own(used: int, expected: int, want: set[State]) -> None:
    assert budget_events.warnings(budget(used, expected=expected)) == want


def test_a_scope_says_how_its_worst_budget_stands() -> None:
    (condition,) = said(budget(100), budget(850, pool="cpu"), budget(1000, kind=Kind.POOL_SECONDS))["conditions"]
    assert (condition["type"], condition["status"]) == ("WithinBudget", "False")
    assert condition["reason"] == State.NEAR
    assert (
        condition["message"] == "scope research may use 16 min of instances a month in pool cpu: 80 % or more is used"
    )


def test_a_scope_without_budgets_says_nothing_and_is_not_written_for_it() -> None:
    assert "conditions" not in said(budget(1000, kind=Kind.POOL_SECONDS))


def test_what_was_said_is_not_said_again() -> None:
    first = said(budget(850))
    known = Scope.model_validate({**builders.resource("Scope"), "status": first})
    assert said(budget(860), scope=known) == {}
    assert said(budget(1000), scope=known)["conditions"][0]["message"].endswith("100 % or more is used")


@pytest.mark.accept("P24", part="events of one budget come in the order in which it becomes so")
def test_what_a_budget_becomes_at_once_is_told_in_order_and_once() -> None:
    def told(limit: Limit, before: Limit) -> list[str]:
        due = budget_events.due([limit, budget(1000, pool="unknown")], budget_events.warned_of([before]), {"gpu"})
        return [event.reason for event in due]

    assert told(budget(1000), before=budget(0)) == [State.NEAR, State.COMMITTED, State.SPENT]
    assert told(budget(1000), before=budget(850)) == [State.COMMITTED, State.SPENT]
    assert told(budget(1000), before=budget(1000)) == []


def test_who_does_not_act_any_more_shows_no_numbers() -> None:
    held: list[str | None] = [None]
    shown: list[metrics.Measure] = []
    made = _publisher(_context(measure=shown.append, held_back=lambda: held[0], is_paused=lambda: False))
    number = metrics.gauge("n", "", ())
    made._metrics = (number,)
    assert tuple(shown[0]()) == (number,)
    held[0] = "another replica leads"
    assert all(not metric.samples for metric in shown[0]())
    assert number not in shown[0]()


def _context(**used: Any) -> control.ControllerContext:
    """A context of which only this is used."""
    unused: dict[str, Any] = {field.name: NOBODY for field in dataclasses.fields(control.ControllerContext)}
    usual: dict[str, Any] = {
        "watch": lambda *_: store.Table[Any](),
        "feed": lambda _: None,
        "measure": lambda _: None,
    }
    return control.ControllerContext(**{**unused, **usual, **used})


def _publisher(context: control.ControllerContext, pools: store.Table[Any] | None = None) -> status_writer.StatusWriter:
    known = account_reader.AccountReader(context, NOBODY)
    return status_writer.StatusWriter(context, pools=pools or store.Table(), scopes=store.Table(), known=known)


def _meta(name: str) -> objects.Meta:
    return objects.simple(msgspec.json.encode({"metadata": {"name": name, "uid": name, "resourceVersion": "1"}})).meta
