"""A group that is put together by what changed is the group that is put together afresh."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.api import keys, names, resources
from autoscaler.kube import objects, store
from autoscaler.machines import decide
from autoscaler.machines.objects import owned
from autoscaler.machines.placement.group_state import GroupState
from autoscaler.machines.state.assembling import Assembling
from autoscaler.machines.state.known import Known, Tables
from autoscaler.machines.state.views import Views
from tests.autoscaler.machines import node_builders
from tests.autoscaler.machines.node_builders import GROUP, NOW, entry, machine_manifest, machine_type, node_manifest

Body = dict[str, Any]
NAMESPACE = "sluice"
GROUPS, TYPES, NODES = (GROUP, "rest"), ("medium", "large"), ("a", "b")


@dataclass
class Followed:
    """Tables, and what is kept of them."""

    tables: Tables = field(
        default_factory=lambda: Tables(
            machines=store.Table(),
            node_pools=store.Table(),
            nodes=store.Table(),
            pods=store.Table(),
            namespaces=store.Table(),
            stateful_sets=store.Table(),
            services=store.Table(),
        )
    )
    version: int = 1

    def __post_init__(self) -> None:
        self.known, self.views, self.assembling = self._fresh()

    def change(self, kind: str, body: Body, *, stays: bool) -> None:
        """Put an object into its table, or take it away."""
        self.version += 1
        body["metadata"] |= {"resourceVersion": str(self.version)}
        if kind == "machines":
            body["metadata"]["generation"] = self.version
        table: store.Table[Any] = getattr(self.tables, kind)
        made = DECODERS[kind](msgspec.json.encode(body))
        if stays:
            table.seen(made)
        else:
            table.gone(made.meta)

    def states(self) -> Mapping[str, GroupState]:
        """Return the groups as they are kept."""
        for group in GROUPS:
            self.views.note_unsettled(group)  # as the controller does when guests may have changed
        self.views.refresh(NOW)
        return {name: self.assembling.group(name) for name in GROUPS}

    def afresh(self) -> Mapping[str, GroupState]:
        """Return the groups put together anew."""
        known, views, assembling = self._fresh()
        views.refresh(NOW)
        known.nodes.update(dict.fromkeys(NODES))  # the second look knows whose nodes they are
        views.refresh(NOW)
        return {name: assembling.group(name) for name in GROUPS}

    def _fresh(self) -> tuple[Known, Views, Assembling]:
        known = Known(self.tables, NAMESPACE)
        views = Views(self.tables, known)
        return known, views, Assembling(self.tables, known, views, NAMESPACE)


DECODERS: dict[str, Any] = {
    "machines": objects.custom(resources.Machine),
    "nodes": objects.node,
    "pods": objects.pod,
    "namespaces": objects.simple,
    "stateful_sets": owned.decode,
}


def named(name: str, namespace: str = "", **more: Any) -> Body:
    return {"name": name, "namespace": namespace, "uid": f"u-{namespace}-{name}", **more}


@st.composite
def machines(draw: st.DrawFn) -> tuple[str, Body]:
    group = draw(st.sampled_from(GROUPS))
    mode = st.sampled_from(["ready", "ready", "maintenance"])
    entries = [
        entry(name, draw(st.sampled_from(TYPES)), mode=draw(mode))
        for name in draw(st.sets(st.sampled_from(NODES), min_size=1))
    ]
    types = [machine_type(name, available=draw(st.integers(0, 2))) for name in TYPES]
    return "machines", machine_manifest(group, *entries, types=types, deleted=draw(st.booleans()))


@st.composite
def nodes(draw: st.DrawFn) -> tuple[str, Body]:
    name, group = draw(st.sampled_from(NODES)), draw(st.sampled_from(GROUPS))
    offered = {keys.machine_label(each): group for each in draw(st.sets(st.sampled_from(TYPES)))}
    is_marked = draw(st.booleans())
    annotations = {keys.MACHINE_GROUP: group} if is_marked else {}
    labels = {**offered, keys.NODE_POOL: "ready"} if is_marked else {}
    taints = draw(st.sampled_from([[], [node_builders.taint("dedicated", "x")]]))
    ready = draw(st.booleans())
    return "nodes", node_manifest(name, annotations=annotations, labels=labels, taints=taints, ready=ready)


@st.composite
def pods(draw: st.DrawFn) -> tuple[str, Body]:
    role = draw(st.sampled_from([keys.ROLE_GUEST, keys.ROLE_GUEST, keys.ROLE_RESERVATION]))
    labels = {
        keys.POD_ROLE: role,
        keys.MACHINE_GROUP: draw(st.sampled_from(GROUPS)),
        keys.MACHINE_TYPE: draw(st.sampled_from(TYPES)),
    }
    metadata = named(f"p-{draw(st.integers(0, 3))}", draw(st.sampled_from(["team", "outside", NAMESPACE])))
    if role == keys.ROLE_RESERVATION:
        labels[keys.POD_REVISION] = draw(st.sampled_from(["one", "two"]))
        metadata["ownerReferences"] = [{"kind": "StatefulSet", "name": "s", "uid": "s", "controller": True}]
    said = draw(st.sampled_from([{}, {keys.MACHINE_PROMISED: "a"}, {keys.MACHINE_TRYING_SINCE: "1"}]))
    gates = draw(st.sampled_from([[], [{"name": keys.MACHINE_GATE}], [{"name": keys.MACHINE_GATE}, {"name": "x"}]]))
    place = {} if gates else draw(st.sampled_from([{}, {"nodeName": "a"}, {"nodeName": "b"}]))
    container = {"name": "c", "resources": {"requests": {"cpu": draw(st.sampled_from(["1", "5"]))}}}
    return "pods", {
        "metadata": {**metadata, "labels": labels, "annotations": said},
        "spec": {"containers": [container], "schedulingGates": gates, **place},
        "status": {"phase": draw(st.sampled_from(["Pending", "Failed"])) if place else "Pending"},
    }


@st.composite
def others(draw: st.DrawFn) -> tuple[str, Body]:
    if draw(st.booleans()):
        labels = draw(st.sampled_from([{}, {keys.INJECT_RESOURCE: keys.INJECT_ENABLED}]))
        return "namespaces", {"metadata": named(draw(st.sampled_from(["team", "outside"])), labels=labels)}
    group, kind = draw(st.sampled_from(GROUPS)), draw(st.sampled_from(TYPES))
    metadata = named(names.stateful_set(kind, group), NAMESPACE, labels={keys.MACHINE_GROUP: group}, generation=1)
    status = {"observedGeneration": 1, "updateRevision": draw(st.sampled_from(["one", "two"]))}
    return "stateful_sets", {"metadata": metadata, "spec": {}, "status": status}


CHANGES = st.lists(
    st.tuples(
        st.one_of(machines(), nodes(), pods(), pods(), others()),
        st.sampled_from([True, True, True, False]),
        st.sampled_from([None, None, None, *GROUPS]),
    ),
    max_size=25,
)


@given(changes=CHANGES)
def test_what_is_kept_of_a_group_is_what_is_found_afresh(
    changes: list[tuple[tuple[str, Body], bool, str | None]],
) -> None:
    followed = Followed()
    for (kind, body), stays, forgotten in changes:
        followed.change(kind, body, stays=stays)
        if forgotten is not None:
            followed.assembling.forget(forgotten)
        kept, want = followed.states(), followed.afresh()
        for name in GROUPS:
            _compare(kept[name], want[name])


def _compare(found: GroupState, want: GroupState) -> None:
    assert found.types == want.types
    assert found.is_deleted == want.is_deleted
    assert found.nodes == want.nodes
    assert found.guests == want.guests
    assert found.sleepers == want.sleepers
    assert found.outsiders == want.outsiders
    assert decide.of_state(found, now=NOW).writes == decide.of_state(want, now=NOW).writes
