"""A plan as it is printed, and as several replicas tell it together."""

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from autoscaler.control.plans import Command, Planned
from autoscaler.runtime.plans import plan_document
from autoscaler.runtime.plans.plan_document import Document, Section, State

LEADER = "sluice_sluice-7d9f8-x2x4q_0a1b2c3d"
AT = datetime(2026, 11, 17, 17, 20, 3, tzinfo=UTC)


def command(verb: str = "patch", what: str = "node n1", why: str = "its marks are to come") -> Command:
    return Command(verb=verb, what=what, why=why)


def section(controller: str = "workers", *commands: Command, **more: Any) -> Section:
    fields = {"leader": LEADER, "state": State.ACTING, "commands": commands, **more}
    return Section(controller=controller, **fields)


def document(*sections: Section) -> Document:
    return Document(at=AT, controllers=sections)


def test_a_plan_reads_at_80_columns() -> None:
    why = "the queue asks for 7 more, and the pool may have 5 more"
    printed = plan_document.text(
        document(
            section(
                "workers",
                command("create", "5 pods of workerpool research/encode", why),
                command("delete", "pod research/encode-x7k2p", "it ended"),
            ),
            section("admission"),
            section("capacity", command("resize", "node group a from 0 to 2", "3 pods wait"), unknown=("b: c",)),
        )
    )
    assert (
        printed
        == """\
Plan of 2026-11-17 17:20:03 UTC, by leader sluice-7d9f8-x2x4q

workers
  + create 5 pods of workerpool research/encode: the queue asks for 7 more, and
      the pool may have 5 more
  - delete pod research/encode-x7k2p: it ended

admission
  nothing to do

capacity
  ~ resize node group a from 0 to 2: 3 pods wait
  ? not known: b: c

Plan: 1 create, 1 delete, 1 resize, as far as it is known."""
    )


def test_nothing_to_do_is_said_plainly() -> None:
    last = plan_document.text(document(section(), section("capacity"))).splitlines()[-1]
    assert last == "Plan: nothing to do."


@pytest.mark.parametrize(
    ("state", "want"),
    [(State.PAUSED, "The runtime is paused:"), (State.OBSERVING, "The runtime only observes:")],
)
def test_what_is_not_carried_out_says_so(state: State, want: str) -> None:
    assert plan_document.text(document(section(state=state))).splitlines()[1].startswith(want)


def test_a_controller_without_a_plan_says_why() -> None:
    printed = plan_document.text(
        document(
            section("a", state=State.STARTING, waits_for="Pod: Listing"), section("b", state=State.STANDBY, leader=None)
        )
    )
    assert "no plan yet, it waits for Pod: Listing" in printed
    assert "b, by nobody: no replica leads" in printed
    assert printed.endswith("nothing to do, as far as it is known.")


def test_a_long_plan_is_cut_and_counted() -> None:
    planned = Planned(commands=(command(),) * 100_000)
    made = plan_document.section("machines", LEADER, State.ACTING, planned)
    assert (len(made.commands), made.more) == (plan_document.LISTED_MAX, 100_000 - plan_document.LISTED_MAX)
    lines = plan_document.text(document(made)).splitlines()
    assert len(lines) < 120
    assert "  ... and 99900 more" in lines
    assert lines[-1] == "Plan: 5000 patch, 95000 not listed."


def test_no_line_is_longer_than_80_and_nothing_reaches_the_terminal_but_text() -> None:
    strange = command("\x1b[31mpatch", f"pod {'a' * 63}/{'b' * 253}", "said:\nno\tway\x07")
    printed = plan_document.text(document(section("workers " + "c" * 90, strange, unknown=("d" * 300,))))
    assert max(map(len, printed.splitlines())) <= 80
    assert all(letter.isprintable() or letter == "\n" for letter in printed)


def test_the_json_keeps_its_names() -> None:
    made = plan_document.as_json(document(section("workers", command(), more=1, unknown=("a",), waits_for=None)))
    assert json.loads(made) == {
        "version": 1,
        "at": "2026-11-17T17:20:03Z",
        "controllers": [
            {
                "controller": "workers",
                "leader": LEADER,
                "state": "acting",
                "waitsFor": None,
                "commands": [{"verb": "patch", "what": "node n1", "why": "its marks are to come"}],
                "more": 1,
                "unknown": ["a"],
            }
        ],
    }
    assert msgspec.json.decode(made, type=Document).controllers[0].commands == (command(),)


def test_of_several_replicas_each_controllers_leader_is_heard() -> None:
    other = "sluice_b_0"
    first = document(section("workers", command()), section("capacity", leader=other, state=State.STANDBY))
    second = document(section("workers", state=State.STANDBY), section("capacity", command("create"), leader=other))
    joined = plan_document.joined([first, second])
    assert joined.controllers == (second.controllers[1], first.controllers[0])
    printed = plan_document.text(joined)
    assert "capacity, by leader b" in printed
    unled = document(section("capacity", leader=None, state=State.STANDBY))
    assert plan_document.joined([unled]).controllers == unled.controllers
