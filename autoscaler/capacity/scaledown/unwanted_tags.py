"""Which instances can do something special that nobody asks for just now. Pure.

What is special about an instance are its pool's tags and its architecture. A waiting pod asks for them by its node
selector or its required node affinity. Where not all idle instances can go, these go first.
"""

from collections.abc import Collection, Mapping
from typing import Final

from autoscaler.api import keys
from autoscaler.capacity.scaleup import demand
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.kube import objects, selecting, shapes, wire

_TAG: Final = keys.tag_label("")


def unwanted(snapshot: Snapshot, nodes: Collection[objects.Key]) -> frozenset[objects.Key]:
    """Return those of these nodes that have tags no waiting pod asks for, or another architecture than is asked for."""
    if not nodes:
        return frozenset()
    asking = {pod.shape for pod in snapshot.indexed.unbound.values() if demand.is_demand(pod)}
    wishes = {wish for shape in asking for wish in _wishes(shape)}
    labels = {key: snapshot.nodes[key].meta.labels for key in nodes if key in snapshot.nodes}
    return frozenset(key for key, own in labels.items() if not _is_wanted(own, wishes))


def _is_wanted(labels: Mapping[str, str], wishes: Collection[wire.Requirement]) -> bool:
    tags = [key for key in labels if key.startswith(_TAG)]
    about_tags = [wish for wish in wishes if wish.key in tags and selecting.holds(wish, labels[wish.key])]
    about_kind = [wish for wish in wishes if wish.key == keys.ARCHITECTURE]
    is_of_kind = any(selecting.holds(wish, labels.get(wish.key)) for wish in about_kind)
    return (not tags or bool(about_tags)) and (not about_kind or is_of_kind)


def _wishes(shape: shapes.Shape) -> list[wire.Requirement]:
    """Return what a pod asks of a node's tags and architecture."""
    wishes = [wire.Requirement(key=key, operator="In", values=(value,)) for key, value in shape.node_selector.items()]
    affinity = shape.affinity.node_affinity if shape.affinity else None
    terms = affinity.required.node_selector_terms if affinity is not None and affinity.required is not None else ()
    wishes += [each for term in terms for each in term.match_expressions]
    return [wish for wish in wishes if wish.key == keys.ARCHITECTURE or wish.key.startswith(_TAG)]
