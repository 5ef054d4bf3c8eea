"""Whether what a trace names is in a stack: the queues of its jobs, and the machines of its guests. Pure."""

from collections.abc import Iterable, Iterator

from autoscaler.api import keys
from autoscaler.api.manifests import Manifest
from autoscaler.simulate.stack import Stack
from autoscaler.simulate.trace import Trace, TraceError


def check(trace: Trace, stack: Stack) -> None:
    """Raise TraceError for jobs that would wait for ever, and for guests that would be refused or be no guests."""
    lines = [*_without_queue(trace, stack), *_without_machine(trace, stack), *_no_guests(trace, stack)]
    if lines:
        raise TraceError("\n".join(["the trace does not fit the stack:", *lines]))


def _without_queue(trace: Trace, stack: Stack) -> Iterator[str]:
    there = {(each["metadata"]["namespace"], each["metadata"]["name"]) for each in _all(stack, "LocalQueue")}
    known = _listed(f"{name} in {namespace}" for namespace, name in sorted(there))
    for name, job in trace.jobs.items():
        if (job.namespace, job.queue) not in there:
            said = f"the stack has no LocalQueue {job.queue} in namespace {job.namespace}"
            yield f"  jobs.{name}.queue: {said} (it has: {known})"


def _without_machine(trace: Trace, stack: Stack) -> Iterator[str]:
    there = {
        (each["metadata"]["name"], kind["name"])
        for each in _all(stack, "Machine")
        for kind in each["spec"]["machineTypes"]
    }
    known = _listed(f"{kind} of {group}" for group, kind in sorted(there))
    for name, guest in trace.guests.items():
        if (guest.group, guest.type) not in there:
            said = f"the stack has no machine type {guest.type} of group {guest.group}"
            yield f"  guests.{name}.type: {said} (it has: {known})"


def _no_guests(trace: Trace, stack: Stack) -> Iterator[str]:
    """Name guests of namespaces where machines are not given to pods."""
    there = {each["metadata"]["name"] for each in _all(stack, "Namespace") if _lets_guests_in(each)}
    for name, guest in trace.guests.items():
        if guest.namespace not in there:
            said = f"pods of namespace {guest.namespace} get no machines in the stack"
            yield f"  guests.{name}.namespace: {said} (those of these do: {_listed(sorted(there))})"


def _lets_guests_in(namespace: Manifest) -> bool:
    labels = namespace["metadata"].get("labels") or {}
    return bool(labels.get(keys.INJECT_RESOURCE) == keys.INJECT_ENABLED)


def _all(stack: Stack, kind: str) -> Iterator[Manifest]:
    return (each for each in stack.objects if each["kind"] == kind)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"
