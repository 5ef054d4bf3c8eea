"""List the promises of docs/features.md with the tests that prove them, and which of those prove only a part.

A test claims a promise with `@pytest.mark.accept("W14")`, or a part of one with `accept("R1", part="...")`. It may not
claim an unknown promise. A promise of which every test proves only a part is shown as such.
"""

import argparse
import contextlib
import io
import json
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NotRequired, TypedDict

import pytest

ROOT = Path(__file__).parent.parent
PROMISES = ROOT / "docs" / "features.md"


class Proof(TypedDict):
    name: str
    tier: str
    part: NotRequired[str]
    """What it proves, where that is less than the promise."""


class Feature(TypedDict):
    id: str
    tests: list[Proof]
    partial: NotRequired[bool]
    """True where all of its tests prove a part only; else absent."""


class ClaimError(Exception):
    """A test's marker cannot be read; the message says what to write."""


class _Collector:
    """A pytest plugin that remembers which test claims which promise."""

    def __init__(self) -> None:
        self.proofs: dict[str, dict[str, Proof]] = {}
        self.faults: list[str] = []
        self._parts: dict[tuple[str, str], set[str | None]] = {}
        """What each test claims of each promise by all of its markers; None: the whole."""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            for marker in item.iter_markers("accept"):
                try:
                    self._add(item, *read_claim(marker))
                except ClaimError as error:
                    self.faults.append(f"{item.nodeid}: {error}")

    def _add(self, item: pytest.Item, ids: Sequence[str], part: str | None) -> None:
        name = item.nodeid.partition("[")[0]
        for promise in ids:
            self._parts.setdefault((promise, name), set()).add(part)
            proof = _proof(name, _tier(item), self._parts[promise, name])
            self.proofs.setdefault(promise, {})[name] = proof


def main(argv: Sequence[str] | None = None) -> int:
    """Print the list; fail where a test claims what nobody promised."""
    parser = argparse.ArgumentParser(prog="python -m tools.features", description=__doc__)
    parser.add_argument("--format", choices=("text", "json"), default="text", help="text for people, json for programs")
    form = parser.parse_args(argv).format
    promises = read_promises(PROMISES.read_text(encoding="utf-8"))
    collected = _collect()
    if collected.faults:
        print("\n".join(collected.faults))
        return 1
    proofs = collected.proofs
    unknown = sorted(proofs.keys() - promises.keys())
    if unknown:
        print(f"tests claim promises that {PROMISES.relative_to(ROOT)} does not list: {', '.join(unknown)}")
        return 1
    features = [feature(promise, proofs.get(promise, {}).values()) for promise in promises]
    print(json.dumps(features, indent=1) if form == "json" else render(features, promises))
    return 0


def read_claim(marker: pytest.Mark) -> tuple[tuple[str, ...], str | None]:
    """Read whose promises a marker claims, and which part of them; None: the whole."""
    if not marker.args or not all(isinstance(each, str) for each in marker.args):
        raise ClaimError(f'accept{marker.args} names no promise: write accept("W14")')
    if unknown := marker.kwargs.keys() - {"part"}:
        raise ClaimError(f"accept{marker.args} has {', '.join(sorted(unknown))}: it knows part alone")
    if "part" not in marker.kwargs:
        return marker.args, None
    part = marker.kwargs["part"]
    if not isinstance(part, str) or not part.strip():
        raise ClaimError(f"accept{marker.args} has the part {part!r}: say in words which part the test proves")
    return marker.args, part


def feature(promise: str, proofs: Iterable[Proof]) -> Feature:
    """Put a promise together with its tests."""
    tests = sorted(proofs, key=_name)
    if tests and all("part" in proof for proof in tests):
        return Feature(id=promise, tests=tests, partial=True)
    return Feature(id=promise, tests=tests)


def read_promises(text: str) -> dict[str, str]:
    """Read the rows `| id | promise |` of the list."""
    return dict(re.findall(r"^\| ([A-Z][0-9]+) \| (.+?) \|", text, flags=re.MULTILINE))


def render(features: Sequence[Feature], promises: dict[str, str]) -> str:
    """Write one line per promise, its tests below, and a closing count."""
    lines: list[str] = []
    for each in features:
        tiers = sorted({proof["tier"] for proof in each["tests"]})
        mark = "[in part] " if each.get("partial") else ""
        lines.append(f"{each['id']:4} {', '.join(tiers) or '-':22} {mark}{promises[each['id']][: 90 - len(mark)]}")
        for proof in each["tests"]:
            lines.append(f"{'':10}{proof['tier']:10} {proof['name']}")
            lines.extend(f"{'':21}part: {part}" for part in (proof.get("part"),) if part)
    proven = sum(bool(each["tests"]) for each in features)
    partial = sum(each.get("partial", False) for each in features)
    left = f", {partial} of them in part only" if partial else ""
    return "\n".join([*lines, f"{proven} of {len(features)} promises have a test{left}"])


def _collect() -> _Collector:
    collector = _Collector()
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        code = pytest.main(["--collect-only", "-qq", str(ROOT / "tests")], [collector])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        sys.exit(f"{said.getvalue()}\nthe tests could not be collected, so there is no list")
    return collector


def _proof(name: str, tier: str, parts: set[str | None]) -> Proof:
    if None in parts:
        return Proof(name=name, tier=tier)
    return Proof(name=name, tier=tier, part="; ".join(sorted(part for part in parts if part is not None)))


def _tier(item: pytest.Item) -> str:
    if item.get_closest_marker("real"):
        return "real"
    return "simulated" if item.get_closest_marker("simulated") else "unit"


def _name(proof: Proof) -> str:
    return proof["name"]


if __name__ == "__main__":
    sys.exit(main())
