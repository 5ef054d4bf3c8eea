"""DaemonSets tolerate our taints, once, and only a write that changes the template is touched."""

from collections.abc import Sequence

import pytest

from autoscaler.api import keys
from autoscaler.api.manifests import Manifest
from autoscaler.api.policies import base
from autoscaler.api.policies.pools import daemon_sets

POOL = {"key": keys.INSTANCE_POOL, "operator": "Exists"}
CLAIMED = {"key": keys.RESERVED_FOR, "operator": "Exists"}
CLOSED = {"key": keys.MACHINE_CLOSED, "operator": "Exists"}
SOFT = POOL | {"effect": "PreferNoSchedule"}


def daemon_set(tolerations: Sequence[Manifest] | None = None) -> Manifest:
    spec: Manifest = {"containers": []} | ({} if tolerations is None else {"tolerations": list(tolerations)})
    return {"metadata": {"name": "agent"}, "spec": {"template": {"spec": spec}}}


def changed(body: Manifest, old: Manifest | None = None) -> Manifest:
    operation = base.Operation.CREATE if old is None else base.Operation.UPDATE
    return daemon_sets.POLICY.twin(base.Request(operation=operation, object=body, old_object=old))


@pytest.mark.parametrize(
    ("given", "want"),
    [
        (None, [POOL, CLAIMED, CLOSED]),
        ([{"key": "app", "operator": "Exists"}], [{"key": "app", "operator": "Exists"}, POOL, CLAIMED, CLOSED]),
        ([CLAIMED], [CLAIMED, POOL, CLOSED]),
        ([SOFT, CLAIMED, CLOSED], [SOFT, CLAIMED, CLOSED, POOL]),
        ([{"operator": "Exists"}], [{"operator": "Exists"}]),
    ],
)
def test_what_is_missing_is_added(given: list[Manifest] | None, want: list[Manifest]) -> None:
    got = changed(daemon_set(given))
    assert got["spec"]["template"]["spec"]["tolerations"] == want
    assert changed(got) == got


def test_a_template_that_stays_is_left_as_it_is() -> None:
    stored = daemon_set()
    assert changed(daemon_set(), stored) == stored
    full = daemon_set([POOL, CLAIMED, CLOSED])
    assert changed(daemon_set(), full) == full
