"""Who makes what holds room for guests: the StatefulSet controller makes sleepers, the runtime writes the catalogue.

A pod that says it is a sleeper would hold room that nobody gives up for it, or that is given up for nobody. A forged
catalogue would let every guest have what it likes.
"""

from typing import Final

from autoscaler.api import keys, names, version
from autoscaler.api.policies import identities
from autoscaler.api.policies.base import Match, Operation, Request, ValidatingPolicy, Validation
from autoscaler.api.policies.machines import guests

STATEFUL_SET_CONTROLLERS: Final = identities.controller("statefulset-controller")
"""Who makes pods of StatefulSets."""
_CATALOGUE: Final = f"machine-catalogue-is-kept.{version.GROUP}"


def sleepers(namespace: str) -> ValidatingPolicy:
    """Write the policy that sleepers are pods of StatefulSets in this namespace, the runtime's."""
    message = (
        f"label {keys.POD_ROLE}: '{keys.ROLE_RESERVATION}' is for pods that hold room for machines, which the"
        f" StatefulSet controller alone makes, in namespace {namespace}: leave the label out"
    )

    def refusal(request: Request) -> str | None:
        if guests.labels_of(request.object).get(keys.POD_ROLE) != keys.ROLE_RESERVATION:
            return None
        is_there = (request.object or {})["metadata"].get("namespace") == namespace
        return None if is_there and request.username in STATEFUL_SET_CONTROLLERS else message

    return ValidatingPolicy(
        name=f"machine-sleepers.{version.GROUP}",
        match=Match(
            resources=("pods",),
            operations=(Operation.CREATE,),
            object_selector={"matchLabels": {keys.POD_ROLE: keys.ROLE_RESERVATION}},
        ),
        validations=(
            Validation(
                expression=f"request.namespace == '{namespace}' && {identities.is_one_of(STATEFUL_SET_CONTROLLERS)}",
                message=message,
            ),
        ),
        twin=refusal,
    )


def catalogue(runtime: str, namespace: str) -> ValidatingPolicy:
    """Write the policy that nobody but the runtime, who is this user, writes the catalogue in its namespace."""
    message = (
        f"only the runtime ({runtime}) writes ConfigMap {names.MACHINE_CATALOGUE}, from Machines: change those instead;"
        f" to delete it all the same, first delete the ValidatingAdmissionPolicyBinding {_CATALOGUE}"
    )

    def refusal(request: Request) -> str | None:
        metadata = (request.object or request.old_object or {})["metadata"]
        if (metadata.get("namespace"), metadata["name"]) != (namespace, names.MACHINE_CATALOGUE):
            return None
        return None if request.username in (runtime, *identities.CONTROLLERS) else message

    name = "(object == null ? oldObject : object).metadata.?name.orValue('')"
    return ValidatingPolicy(
        name=_CATALOGUE,
        match=Match(
            resources=("configmaps",),
            operations=(Operation.CREATE, Operation.UPDATE, Operation.DELETE),
            conditions={
                "is-the-catalogue": f"{name} == '{names.MACHINE_CATALOGUE}'",
                "in-the-runtimes-namespace": f"request.namespace == '{namespace}'",
            },
        ),
        validations=(Validation(expression=identities.is_one_of((runtime, *identities.CONTROLLERS)), message=message),),
        twin=refusal,
    )
