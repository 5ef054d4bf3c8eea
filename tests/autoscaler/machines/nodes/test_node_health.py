"""Whether a node can take guests."""

import pytest

from autoscaler.kube import objects
from autoscaler.machines.nodes import node_health
from autoscaler.machines.nodes.node_health import Trouble
from tests.autoscaler.machines.node_builders import node


@pytest.mark.parametrize(
    ("seen", "want"),
    [
        (node(), None),
        (None, Trouble.MISSING),
        (node(ready=False), Trouble.NOT_READY),
        (node(cordoned=True), Trouble.CORDONED),
        (node(deleted=True), Trouble.DELETED),
        (node(ready=False, cordoned=True), Trouble.NOT_READY),
    ],
    ids=lambda each: str(each) if isinstance(each, Trouble) else "",
)
def test_a_node_takes_guests_unless_something_is_wrong(seen: objects.Node | None, want: Trouble | None) -> None:
    assert node_health.trouble(seen) is want
