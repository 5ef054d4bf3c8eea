"""Whether a trace's jobs find the queues that they name in a stack. Pure."""

from autoscaler.rehearsal.stack import Stack
from autoscaler.rehearsal.trace import Trace, TraceError


def check(trace: Trace, stack: Stack) -> None:
    """Raise TraceError for jobs that would wait for ever in a LocalQueue that is not there."""
    there = {
        (each["metadata"]["namespace"], each["metadata"]["name"])
        for each in stack.objects
        if each["kind"] == "LocalQueue"
    }
    known = ", ".join(f"{name} in {namespace}" for namespace, name in sorted(there)) or "none"
    lines = [
        f"  jobs.{name}.queue: the stack has no LocalQueue {job.queue} in namespace {job.namespace} (it has: {known})"
        for name, job in trace.jobs.items()
        if (job.namespace, job.queue) not in there
    ]
    if lines:
        raise TraceError("\n".join(["the trace does not fit the stack:", *lines]))
