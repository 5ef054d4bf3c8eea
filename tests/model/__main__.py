"""`make model`: all explorations and mutations, or those whose name contains what is given; one line each."""

import argparse
import sys
import time

from tests.model import explorer, mutations, scenarios
from tests.model.breaking import Mutation
from tests.model.scenario import Scenario


def main() -> int:
    """Return 1 if something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", nargs="*", help="part of the name of an exploration or mutation")
    parser.add_argument("--most", type=int, default=1_000_000, help="so many states of each, at most")
    chosen = parser.parse_args()
    name = " ".join(chosen.name)
    explored = [_explore(each, chosen.most) for each in (*scenarios.SMALL, *scenarios.LARGE) if name in each.name]
    broken = [_break(each) for each in mutations.MUTATIONS if name in each.name]
    return 0 if all(explored) and all(broken) else 1


def _explore(scenario: Scenario, most: int) -> bool:
    began = time.monotonic()
    result = explorer.explore(scenario, most=most)
    whole, seconds = "all" if result.is_whole else "the first", time.monotonic() - began
    print(f"{scenario.name}: {whole} {result.states} states, {result.ends} ends, {seconds:.0f} s", flush=True)
    if result.violation is not None:
        print(result.violation, flush=True)
    return result.violation is None


def _break(mutation: Mutation) -> bool:
    is_found = mutations.is_found(mutation)
    print(f"rule {mutation.rule}, {mutation.name}: {'found' if is_found else 'NOT FOUND'}", flush=True)
    return is_found


sys.exit(main())
