"""`make model`: all explorations, or those whose name contains what is given, and all mutations; one line each."""

import argparse
import sys
import time

from tests.model import explorer, scenarios


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", nargs="?", default="", help="part of the name of an exploration")
    parser.add_argument("--most", type=int, default=2_000_000, help="so many states of each, at most")
    chosen = parser.parse_args()
    found = 0
    for each in (*scenarios.SMALL, *scenarios.LARGE):
        if chosen.name in each.name:
            began = time.monotonic()
            result = explorer.explore(each, most=chosen.most)
            whole = "all" if result.is_whole else "the first"
            seconds = time.monotonic() - began
            print(f"{each.name}: {whole} {result.states} states, {result.ends} ends, {seconds:.0f} s", flush=True)
            if result.violation is not None:
                print(result.violation, flush=True)
                found += 1
    return min(found, 1)


sys.exit(main())
