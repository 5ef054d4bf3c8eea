"""What every test lives under: tiers by folder, no network in the fast tier, hypothesis profiles."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from tools import features

TESTS = Path(__file__).parent
TIERS = {"e2e": pytest.mark.real, "scenarios": pytest.mark.simulated}
"""The tier of each folder; all else is the unit tier. A contract test says for itself what it runs on."""
PROMISED = features.read_promises(features.PROMISES.read_text(encoding="utf-8")).keys()

hypothesis.settings.register_profile("dev", max_examples=50, deadline=None)
hypothesis.settings.register_profile("ci", max_examples=300, deadline=None, print_blob=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "dev")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        _check_claims(item)
        folder = item.path.relative_to(TESTS).parts[0]
        if folder in TIERS:
            item.add_marker(TIERS[folder])


def _check_claims(item: pytest.Item) -> None:
    """Refuse markers that `make features` could not read."""
    for marker in item.iter_markers("accept"):
        try:
            claimed, _ = features.read_claim(marker)
        except features.ClaimError as error:
            raise pytest.UsageError(f"{item.nodeid}: {error}") from None
        if unknown := set(claimed) - PROMISED:
            raise pytest.UsageError(f"{item.nodeid} claims what docs/features.md does not list: {sorted(unknown)}")


class _Wire:
    """Cuts the network: an audit hook sees every connection of this process, whichever library makes it."""

    cut = False

    def __init__(self) -> None:
        sys.addaudithook(self._watch)

    def _watch(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.cut and event in {"socket.connect", "socket.getaddrinfo", "socket.sendto"}:
            target = arguments[1] if event != "socket.getaddrinfo" else arguments[0]
            if not isinstance(target, (str, bytes)) or event == "socket.getaddrinfo":  # a path is a local socket
                raise RuntimeError(f"the fast tier has no network, and this test wants {target!r}: `make e2e` has one")


_WIRE = _Wire()


@pytest.fixture(autouse=True)
def _network(request: pytest.FixtureRequest) -> Iterator[None]:
    _WIRE.cut = request.node.get_closest_marker("real") is None
    yield
    _WIRE.cut = False
