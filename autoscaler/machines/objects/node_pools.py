"""The MachineNodePool of a Machine: a copy of its nodes, with all its types. Pure.

It decides what the copy should hold and what of it is to be patched. It must not write to its status, which is
`status`'s, and reads nothing back: what somebody changes in a copy is undone.
"""

from autoscaler.api import keys, names, version
from autoscaler.api.manifests import Manifest
from autoscaler.api.resources import Machine, MachineNodePool
from autoscaler.api.resources.machines import MachineNodePoolSpec
from autoscaler.kube import objects
from autoscaler.machines.objects import owned


def wanted(machine: objects.Custom[Machine]) -> Manifest:
    """Write the MachineNodePool of a Machine."""
    group = machine.meta.key.name
    return {
        "apiVersion": version.GROUP_VERSION,
        "kind": MachineNodePool.__name__,
        "metadata": {
            "name": names.machine_node_pool(group),
            "labels": {keys.MACHINE_GROUP: group},
            "ownerReferences": [owned.owner(machine)],
        },
        "spec": _spec(machine).model_dump(mode="json", by_alias=True, exclude_none=True),
    }


def difference(
    machine: objects.Custom[Machine], found: objects.Custom[MachineNodePool] | None
) -> owned.Create | owned.Patch | None:
    """Return what is to be done about a Machine's MachineNodePool; None: nothing."""
    made = wanted(machine)
    if found is None:
        return owned.Create(manifest=made)
    if found.meta.deleted_at is not None:
        return None
    changes: Manifest = {}
    if found.resource.spec != _spec(machine):
        changes["spec"] = made["spec"]
    metadata = _metadata(machine, made, found.meta)
    changes |= {"metadata": metadata} if metadata else {}
    return owned.Patch(changes=changes) if changes else None


def _spec(machine: objects.Custom[Machine]) -> MachineNodePoolSpec:
    spec = machine.resource.spec
    stock = [{"name": each.name} for each in spec.machine_types]
    return MachineNodePoolSpec.model_validate(
        {"machine_group": machine.meta.key.name, "node_pool": spec.node_pool, "machine_type_stock": stock}
    )


def _metadata(machine: objects.Custom[Machine], made: Manifest, found: objects.Meta) -> Manifest:
    changes: Manifest = {}
    if found.labels.get(keys.MACHINE_GROUP) != machine.meta.key.name:
        changes["labels"] = made["metadata"]["labels"]
    if [each.uid for each in found.owners] != [machine.meta.uid]:
        changes["ownerReferences"] = made["metadata"]["ownerReferences"]
    return changes
