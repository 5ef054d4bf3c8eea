"""Whether what a trace names is in a stack: queues, machines, pools, zones, types and labels of nodes. Pure.

Work that names something else would wait for ever, and a shortage elsewhere would be none: the day would tell nothing.
"""

import difflib
from collections.abc import Iterable, Iterator, Mapping

from autoscaler.api import keys
from autoscaler.api.manifests import Manifest
from autoscaler.simulate.stack import Stack
from autoscaler.simulate.trace import Problem, Trace, Work


def check(trace: Trace, stack: Stack) -> None:
    """Raise TraceError with all that the stack does not have."""
    problems = [
        *_without_queue(trace, stack),
        *_without_machine(trace, stack),
        *_no_guests(trace, stack),
        *_without_pool(trace, stack),
        *_without_place(trace, stack),
        *_without_label(trace, stack),
    ]
    if problems:
        raise trace.error("the trace does not fit the stack:", problems)


def _without_queue(trace: Trace, stack: Stack) -> Iterator[Problem]:
    there = {(each["metadata"]["namespace"], each["metadata"]["name"]) for each in _all(stack, "LocalQueue")}
    known = _listed(f"{name} in {namespace}" for namespace, name in sorted(there))
    for name, job in trace.jobs.items():
        if (job.namespace, job.queue) not in there:
            said = f"the stack has no LocalQueue {job.queue} in namespace {job.namespace}"
            yield Problem(("jobs", name, "queue"), f"{said} (it has: {known})")


def _without_machine(trace: Trace, stack: Stack) -> Iterator[Problem]:
    there = {
        (each["metadata"]["name"], kind["name"])
        for each in _all(stack, "Machine")
        for kind in each["spec"]["machineTypes"]
    }
    known = _listed(f"{kind} of {group}" for group, kind in sorted(there))
    for name, guest in trace.guests.items():
        if (guest.group, guest.type) not in there:
            said = f"the stack has no machine type {guest.type} of group {guest.group}"
            yield Problem(("guests", name, "type"), f"{said} (it has: {known})")


def _no_guests(trace: Trace, stack: Stack) -> Iterator[Problem]:
    """Name guests of namespaces where machines are not given to pods."""
    there = {each["metadata"]["name"] for each in _all(stack, "Namespace") if _lets_guests_in(each)}
    for name, guest in trace.guests.items():
        if guest.namespace not in there:
            said = f"pods of namespace {guest.namespace} get no machines in the stack"
            yield Problem(("guests", name, "namespace"), f"{said} (those of these do: {_listed(sorted(there))})")


def _without_pool(trace: Trace, stack: Stack) -> Iterator[Problem]:
    there = {group.key.pool for group in stack.groups.groups}
    for name in trace.seconds_used_this_month:
        if name not in there:
            yield Problem(("secondsUsedThisMonth", name), f"the stack has no such pool{_hint(name, there)}")


def _without_place(trace: Trace, stack: Stack) -> Iterator[Problem]:
    """Name shortages of what the stack has nowhere."""
    zones = {group.key.zone for group in stack.groups.groups}
    types = {group.key.instance_type for group in stack.groups.groups}
    for index, shortage in enumerate(trace.shortages):
        if shortage.zone not in zones:
            said = f"the stack has no node group in {shortage.zone}{_hint(shortage.zone, zones)}"
            yield Problem(("shortages", index, "zone"), said)
        for number, kind in enumerate(shortage.instance_types):
            if kind not in types:
                said = f"no node group of the stack has {kind}{_hint(kind, types)}"
                yield Problem(("shortages", index, "instanceTypes", number), said)


def _without_label(trace: Trace, stack: Stack) -> Iterator[Problem]:
    """Name selectors that no node of the stack will ever meet."""
    offered: dict[str, set[str]] = {}
    for group in stack.groups.groups:
        for key, value in group.labels.items():
            offered.setdefault(key, set()).add(value)
    kinds: Mapping[str, Mapping[str, Work]] = {"queues": trace.queues, "pods": trace.pods, "jobs": trace.jobs}
    for field, named in kinds.items():
        for name, work in named.items():
            for key, value in work.node_selector.items():
                path = (field, name, "nodeSelector", key)
                if key in offered and value not in offered[key]:
                    said = f"no node group of the stack has {key}={value}{_hint(value, offered[key])}"
                    yield Problem(path, said)
                elif key not in offered and not _is_kubernetes(key):
                    yield Problem(path, f"no node group of the stack has the label {key}{_hint(key, offered)}")


def _is_kubernetes(label: str) -> bool:
    return label.partition("/")[0].endswith(("kubernetes.io", "k8s.io", "amazonaws.com", "nvidia.com"))


def _hint(given: str, known: Iterable[str]) -> str:
    names = sorted(known)
    close = difflib.get_close_matches(given, names, n=1)
    return f": did you mean {close[0]}?" if close else f" (there are: {_listed(names)})"


def _lets_guests_in(namespace: Manifest) -> bool:
    labels = namespace["metadata"].get("labels") or {}
    return bool(labels.get(keys.INJECT_RESOURCE) == keys.INJECT_ENABLED)


def _all(stack: Stack, kind: str) -> Iterator[Manifest]:
    return (each for each in stack.objects if each["kind"] == kind)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"
