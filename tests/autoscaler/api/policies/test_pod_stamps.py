"""The annotations by which opened pods are counted are the runtime's alone."""

import pytest

from autoscaler.api import keys
from autoscaler.api.manifests import Manifest
from autoscaler.api.policies import base, identities, pod_stamps

RUNTIME = identities.account_user("sluice-system", "sluice")
OF_JOBS = {keys.JOB_UID: "u", keys.POD_SET: "main", keys.CLUSTER_QUEUE: "q", keys.FLAVORS: "", keys.OPENED_AT: "1"}
OF_GUESTS = {keys.MACHINE_PROMISED: "node", keys.MACHINE_TRIED: "a,b", keys.MACHINE_TRYING_SINCE: "1"}
STAMPED = {**OF_JOBS, **OF_GUESTS, keys.MACHINE_PINNED: "node"}


def pod(annotations: Manifest | None) -> Manifest:
    return {"metadata": {"name": "p", **({} if annotations is None else {"annotations": annotations})}}


def refusal(old: Manifest | None, new: Manifest, username: str = "admin") -> str | None:
    operation = base.Operation.CREATE if old is None else base.Operation.UPDATE
    request = base.Request(operation=operation, object=new, old_object=old, username=username)
    return pod_stamps.kept_by(RUNTIME).twin(request)


@pytest.mark.accept("E20", part="stamps of opened pods, in Python")
@pytest.mark.parametrize("key", sorted(STAMPED))
def test_nobody_but_the_runtime_sets_changes_or_removes_a_stamp(key: str) -> None:
    without = {name: value for name, value in STAMPED.items() if name != key}
    writes = [
        (None, pod({key: "forged"})),
        (pod(None), pod({key: "forged"})),
        (pod(STAMPED), pod({**STAMPED, key: "forged"})),
        (pod(STAMPED), pod(without)),
        (pod(STAMPED), pod(None)),
    ]
    for old, new in writes:
        assert key in (refusal(old, new) or "")
        assert refusal(old, new, RUNTIME) is None


@pytest.mark.parametrize("old", [None, pod(None), pod({"app": "b"})])
def test_other_annotations_are_free(old: Manifest | None) -> None:
    assert refusal(old, pod({"app": "a"})) is None
    assert refusal(pod(STAMPED), pod({**STAMPED, "app": "a"})) is None


def test_every_way_to_write_a_pods_annotations_is_covered() -> None:
    want = {"pods", "pods/status", "pods/binding", "bindings"}
    assert set(pod_stamps.kept_by(RUNTIME).match.resources) == want
