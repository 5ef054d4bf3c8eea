"""The headless Service that a type's StatefulSet names. Pure.

It decides what the Service should be and what to do where it differs. It must not give it ports: nobody calls sleepers.
"""

from typing import Final

from autoscaler.api import names
from autoscaler.api.manifests import Manifest
from autoscaler.api.resources import Machine
from autoscaler.kube import kinds, objects
from autoscaler.machines.objects import owned, stateful_sets

FIXED: Final[tuple[owned.Path, ...]] = (("spec", "clusterIP"),)


def wanted(machine: objects.Custom[Machine], machine_type: str, *, namespace: str) -> Manifest:
    """Write the Service of a type; None in it: there must be nothing."""
    group = machine.meta.key.name
    labels = stateful_sets.role_labels(group, machine_type)
    return {
        "apiVersion": kinds.SERVICES.api_version,
        "kind": kinds.SERVICES.kind,
        "metadata": {
            "name": names.stateful_set(machine_type, group),
            "namespace": namespace,
            "labels": labels,
            "ownerReferences": [owned.owner(machine)],
        },
        "spec": {
            "type": "ClusterIP",
            "clusterIP": "None",
            "selector": labels,
            "ports": None,
            "externalIPs": None,
            "externalName": None,
        },
    }


def difference(wanted: Manifest, found: owned.Owned | None) -> owned.Difference | None:
    """Return what is to be done about a type's Service; None: nothing."""
    return owned.difference(wanted, found, fixed=FIXED)
