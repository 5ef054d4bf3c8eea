"""The numbers of machine types, as metrics. Pure: who counts them says what they are, here is how they are shown."""

from collections.abc import Iterable, Mapping
from typing import Final

from autoscaler.control import metrics
from autoscaler.machines.model import Usage

_PREFIX: Final = "sluice_machines"
_SHOWN: Final = (
    ("maximum", "Machines of a type there are at most."),
    ("reserved", "Machines that nobody uses and whose room is held on a node."),
    ("used", "Machines that a guest uses."),
    ("waiting", "Guests that wait for a machine."),
)


def of(usage: Mapping[str, Mapping[str, Usage]]) -> Iterable[metrics.Metric]:
    """Return the numbers of all types, by group and type."""
    types = [
        ({"group": group, "type": name}, each)
        for group, by_type in sorted(usage.items())
        for name, each in by_type.items()
    ]
    for state, text in _SHOWN:
        yield metrics.gauge(f"{_PREFIX}_{state}", text, [(labels, getattr(each, state)) for labels, each in types])
