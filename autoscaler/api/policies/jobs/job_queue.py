"""A job enters, changes and leaves its queue only while it has no pods, or it would run on quota that nobody counted.

A job that runs was never asked to wait: the label comes too late for it. One that was admitted uses quota of its queue
until its pods are gone. A job is its queue's own by its label, unless a RayJob or the like runs it, so that owner is
looked at as well. The garbage collector takes owners away that are gone, and is let through.
"""

from collections.abc import Callable
from typing import Final

from autoscaler.api import keys, version
from autoscaler.api.manifests import Manifest
from autoscaler.api.policies import identities
from autoscaler.api.policies.base import Match, Operation, Request, ValidatingPolicy, Validation
from autoscaler.api.policies.jobs import queued


def late_message(kind: queued.Kind) -> str:
    """Say why a job may not enter a queue."""
    return (
        f"this {kind.called} runs already, and label {keys.QUEUE_NAME} would have it wait for quota: suspend it"
        " (spec.suspend: true), wait until its pods are gone and set the label then, or make it anew with the label"
    )


def kept_message(kind: queued.Kind) -> str:
    """Say why a job may not leave or change its queue."""
    return (
        f"this {kind.called} runs on quota of its queue, so its label {keys.QUEUE_NAME} and its owner stay as they are:"
        " set spec.active of its Workload to false, wait until it is suspended and its pods are gone, and try again; or"
        f" delete it and make it anew (a manifest that is applied again must have the same {keys.QUEUE_NAME})"
    )


def policy(kind: queued.Kind, is_at_rest: Callable[[Manifest], bool], at_rest: str) -> ValidatingPolicy:
    """Write the policy of a kind; a job at rest has no pods and gets none, in Python and in CEL."""

    def refusal(request: Request) -> str | None:
        old = request.old_object or {}
        before = queued.queue_of(old)
        is_free = queued.queue_of(request.object) == before or is_at_rest(old)
        if is_free or request.username in identities.CONTROLLERS:
            return None
        return kept_message(kind) if before else late_message(kind)

    before = queued.queue("oldObject")
    is_free = f"{at_rest} || {identities.is_one_of(identities.CONTROLLERS)}"
    return ValidatingPolicy(
        name=f"{kind.name}-queue.{version.GROUP}",
        match=Match(
            group=kind.group,
            version=kind.version,
            resources=(kind.plural,),
            operations=(Operation.UPDATE,),
            conditions={"queue-changes": f"{queued.queue('object')} != {before}"},
        ),
        validations=(
            Validation(expression=f"{before} != '' || {is_free}", message=late_message(kind)),
            Validation(expression=f"{before} == '' || {is_free}", message=kept_message(kind)),
        ),
        twin=refusal,
    )


JOB: Final = policy(queued.JOB, queued.is_at_rest, queued.at_rest("oldObject"))
RAY_CLUSTER: Final = policy(queued.RAY_CLUSTER, queued.is_suspended, queued.suspended("oldObject"))
