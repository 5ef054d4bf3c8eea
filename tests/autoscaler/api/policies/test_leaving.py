"""The drain object is deleted by deployers, by whoever confirmed it, and with its namespace; by nobody else."""

from typing import Any

import pytest

from autoscaler.api import keys, names
from autoscaler.api.manifests import Manifest
from autoscaler.api.policies import base, leaving

HOME = "scaling"
POLICY = leaving.policy(HOME, leaving.Deployers(users=("pipeline",), groups=("ops",)))


def config_map(name: str = names.DRAIN_OBJECT, namespace: str = HOME, **metadata: Any) -> Manifest:
    return {"metadata": {"name": name, "namespace": namespace, **metadata}}


def deletion(old: Manifest | None = None, username: str = "admin", groups: tuple[str, ...] = ()) -> str | None:
    request = base.Request(
        operation=base.Operation.DELETE,
        object=None,
        old_object=old or config_map(),
        username=username,
        groups=groups,
    )
    return POLICY.twin(request)


@pytest.mark.accept("S23")
@pytest.mark.parametrize(
    ("username", "groups", "refused"),
    [
        ("admin", ("system:masters",), True),
        ("pipeline", (), False),
        ("somebody", ("system:authenticated", "ops"), False),
        ("ops", ("pipeline",), True),
        ("system:serviceaccount:kube-system:namespace-controller", (), False),
        ("system:serviceaccount:kube-system:generic-garbage-collector", (), False),
        ("system:kube-controller-manager", (), False),
    ],
)
def test_only_deployers_and_kubernetes_own_controllers_delete_it(
    username: str, groups: tuple[str, ...], *, refused: bool
) -> None:
    assert (deletion(username=username, groups=groups) is not None) == refused


@pytest.mark.accept("S23")
@pytest.mark.parametrize(("value", "refused"), [("true", False), ("false", True), ("", True), ("True", True)])
def test_the_annotation_confirms_with_one_word_only(value: str, *, refused: bool) -> None:
    confirmed = config_map(annotations={keys.CONFIRM_LEAVING: value})
    assert (deletion(confirmed) is not None) == refused


def test_other_config_maps_are_free() -> None:
    assert deletion(config_map(name="other")) is None
    assert deletion(config_map(namespace="default")) is None


def test_a_refusal_says_both_ways() -> None:
    why = deletion() or ""
    assert f"kubectl -n {HOME} annotate configmap {names.DRAIN_OBJECT} {keys.CONFIRM_LEAVING}=true" in why
    assert "autoscaler.deployers" in why


@pytest.mark.accept("S23")
def test_the_garbage_collector_is_not_made_to_delete_it() -> None:
    owned = config_map(ownerReferences=[{"uid": "1", "kind": "ConfigMap", "name": "gone"}])

    def update(old: Manifest, new: Manifest, username: str = "admin") -> str | None:
        request = base.Request(operation=base.Operation.UPDATE, object=new, old_object=old, username=username)
        return POLICY.twin(request)

    assert update(config_map(), owned) == deletion()
    assert update(config_map(), owned, "pipeline") is None
    assert update(owned, owned) is None
    assert update(owned, config_map()) is None
    assert update(config_map(finalizers=["sluice.dev/leaving-workers"]), config_map()) is None
    assert update(config_map(annotations={keys.CONFIRM_LEAVING: "true"}), owned) is None
