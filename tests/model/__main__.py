"""`make model`: all explorations and mutations, or those whose name contains what is given; one line each."""

import argparse
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, Protocol, TypeVar

from tests.model import explorer, mutations, scenarios
from tests.model.breaking import Mutation
from tests.model.machines import explorer as machine_explorer
from tests.model.machines import mutations as machine_mutations
from tests.model.machines import scenarios as machine_scenarios
from tests.model.search import Result

ADMISSION: Final = (*scenarios.SMALL, *scenarios.LARGE)
MACHINES: Final = (*machine_scenarios.SMALL, *machine_scenarios.LARGE)


class _Named(Protocol):
    @property
    def name(self) -> str: ...


N = TypeVar("N", bound=_Named)


def main() -> int:
    """Return 1 if something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", nargs="*", help="part of the name of an exploration or mutation")
    parser.add_argument("--most", type=int, default=1_000_000, help="so many states of each, at most")
    chosen = parser.parse_args()
    name = " ".join(chosen.name)
    explored = [_explore(each.name, partial(explorer.explore, each), chosen.most) for each in _named(ADMISSION, name)]
    explored += [
        _explore(each.name, partial(machine_explorer.explore, each), chosen.most) for each in _named(MACHINES, name)
    ]
    broken = [_break(each, mutations.is_found) for each in _named(mutations.MUTATIONS, name)]
    broken += [_break(each, machine_mutations.is_found) for each in _named(machine_mutations.MUTATIONS, name)]
    return 0 if all(explored) and all(broken) else 1


def _named(every: Iterable[N], part: str) -> list[N]:
    return [each for each in every if part in each.name]


def _explore(name: str, explore: Callable[..., Result], most: int) -> bool:
    began = time.monotonic()
    result = explore(most=most)
    whole, seconds = "all" if result.is_whole else "the first", time.monotonic() - began
    print(f"{name}: {whole} {result.states} states, {result.ends} ends, {seconds:.0f} s", flush=True)
    if result.violation is not None:
        print(result.violation, flush=True)
    return result.violation is None


def _break(mutation: Mutation, is_found: Callable[[Mutation], bool]) -> bool:
    found = is_found(mutation)
    print(f"rule {mutation.rule}, {mutation.name}: {'found' if found else 'NOT FOUND'}", flush=True)
    return found


sys.exit(main())
