"""A namespace's scope is changed by those who may use the scope that was and the one that will be."""

import pytest

from autoscaler.api import keys, policies
from autoscaler.api.manifests import Manifest
from autoscaler.api.policies import base
from autoscaler.api.policies.pools import namespace_scope

USABLE = ("mine", "ours")


def namespace(scope: str | None) -> Manifest:
    return {"metadata": {"name": "work", **({} if scope is None else {"labels": {keys.SCOPE: scope}})}}


def is_allowed(access: base.Access) -> bool:
    return (access.group, access.resource, access.verb) == ("sluice.dev", "scopes", "use") and access.name in USABLE


def refusal(old: Manifest | None, new: Manifest) -> str | None:
    operation = base.Operation.CREATE if old is None else base.Operation.UPDATE
    request = base.Request(operation=operation, object=new, old_object=old, is_allowed=is_allowed)
    return namespace_scope.POLICY.twin(request)


@pytest.mark.accept("S23")
@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        (None, "mine", None),
        (None, "theirs", "theirs"),
        ("mine", "ours", None),
        ("mine", "theirs", "theirs"),
        ("theirs", "mine", "theirs"),
        ("theirs", None, "theirs"),
        ("mine", None, None),
        ("theirs", "", "theirs"),
        ("theirs", "theirs", None),
        (None, "", None),
        (None, None, None),
    ],
)
def test_a_change_needs_the_right_to_use_both_scopes(old: str | None, new: str | None, want: str | None) -> None:
    got = refusal(namespace(old), namespace(new))
    assert got == (None if want is None else namespace_scope.message(want))


@pytest.mark.accept("S23")
@pytest.mark.parametrize(("scope", "refused"), [("mine", False), ("theirs", True), ("", False), (None, False)])
def test_a_new_namespace_is_put_only_into_a_scope_that_its_maker_may_use(scope: str | None, *, refused: bool) -> None:
    assert (refusal(None, namespace(scope)) is not None) == refused


def test_a_refusal_names_the_right_that_is_missing() -> None:
    assert "the verb use on scopes.sluice.dev/theirs" in (refusal(None, namespace("theirs")) or "")


def test_it_holds_whoever_the_runtime_is_and_through_subresources_too() -> None:
    assert namespace_scope.POLICY in policies.POLICIES
    want = ("namespaces", "namespaces/status", "namespaces/finalize")
    assert namespace_scope.POLICY.match.resources == want
