"""What a Workload says about a resize that is under way: what it waits for, in words. Pure."""

from collections.abc import Mapping

from autoscaler.admission.state.job_state import JobState
from autoscaler.admission.workloads.workload import ConditionType
from autoscaler.admission.workloads.workload_status import Change


def condition(state: JobState, granted: Mapping[str, int]) -> Change:
    """Write the condition ResizeRequested for what is granted."""
    job = state.wanted
    sizes = {each.name: each.size for each in job.pod_sets} if job is not None else {}
    waits = [_waits(state, name, sizes.get(name, 0), granted.get(name, 0)) for name in {**granted, **sizes}]
    said = [each for each in waits if each]
    if not said:
        return _change(holds=False, reason="Settled", message="the job has the size that it wants")
    grows = any(sizes.get(name, 0) > granted.get(name, 0) for name in {**granted, **sizes})
    return _change(holds=True, reason="ScalingUp" if grows else "ScalingDown", message="; ".join(said))


def _waits(state: JobState, pod_set: str, size: int, granted: int) -> str:
    if size > granted:
        waiting = size - granted
        return f"{pod_set}: {granted} of {size} pods are granted, {waiting} {_s('wait', waiting)} for quota"
    if size < granted:
        running, surplus = len(state.staying(pod_set)), granted - size
        keep = f"{surplus} more than the job wants {_s('keep', surplus)} quota"
        return f"{pod_set}: {keep} until as many pods are deleted ({running} run now)"
    return ""


def _s(verb: str, count: int) -> str:
    return f"{verb}s" if count == 1 else verb


def _change(*, holds: bool, reason: str, message: str) -> Change:
    return Change(type=ConditionType.RESIZE_REQUESTED, holds=holds, reason=reason, message=message)
