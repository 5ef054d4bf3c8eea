"""What became of a write, told the same way by every adapter: the cloud is asked once, then the truth is read again.

It sends nothing itself and repeats nothing: writes to a cloud are not idempotent, and the next plan heals what failed.
"""

from collections.abc import Awaitable, Callable

from autoscaler.cloud import port


def check_bounds(group: port.NodeGroup, desired: int) -> None:
    """Raise CloudError if a group may not have so many instances."""
    if not group.minimum <= desired <= group.maximum:
        raise port.CloudError(
            port.Reason.REFUSED,
            f"setting the desired capacity of {group.name} to {desired} was not asked for: the group has from "
            f"{group.minimum} to {group.maximum} instances; the stack sets these bounds",
        )


def check_decrement(group: port.NodeGroup, instance: port.InstanceId) -> None:
    """Raise CloudError if a group may not have one instance less."""
    if group.desired <= group.minimum:
        raise port.CloudError(
            port.Reason.REFUSED,
            f"ending {instance} without a successor was not asked for: {group.name} has {group.desired} instances "
            f"and must have {group.minimum}; let it be replaced, or lower the minimum in the stack",
        )


async def set_desired(
    cloud: port.Cloud, group: port.NodeGroup, desired: int, send: Callable[[], Awaitable[None]]
) -> port.Outcome:
    """Send a new desired capacity once, and tell what became of it."""
    try:
        check_bounds(group, desired)
        await send()
    except port.CloudError as error:
        read = await _read_again(error, cloud, group.name)
        return _outcome(error, read, is_done=read is not None and read.desired == desired)
    return port.Outcome(verdict=port.Verdict.LANDED, group=group.with_desired(desired))


async def terminate(
    cloud: port.Cloud,
    group: port.NodeGroup,
    instance: port.InstanceId,
    *,
    decrement: bool,
    send: Callable[[], Awaitable[None]],
) -> port.Outcome:
    """Ask for an instance's end once, and tell what became of it."""
    try:
        if decrement:
            check_decrement(group, instance)
        await send()
    except port.CloudError as error:
        read = await _read_again(error, cloud, group.name)
        is_done = read is not None and all(one.id != instance for one in read.members)
        return _outcome(error, read, is_done=is_done)
    return port.Outcome(verdict=port.Verdict.LANDED, group=group.without(instance, decrement=decrement))


async def _read_again(error: port.CloudError, cloud: port.Cloud, name: port.GroupName) -> port.NodeGroup | None:
    """Read the group where it matters: the write may have landed, or what we knew of the group is old."""
    if not error.may_have_landed and error.reason not in {port.Reason.REFUSED, port.Reason.NOT_FOUND}:
        return None
    try:
        listing = await cloud.groups([name])
    except port.CloudError:
        return None  # the outcome says already that nobody can tell
    return next(iter(listing.groups), None)


def _outcome(error: port.CloudError, read: port.NodeGroup | None, *, is_done: bool) -> port.Outcome:
    if error.may_have_landed and is_done:
        return port.Outcome(verdict=port.Verdict.LANDED, group=read)
    verdict = port.Verdict.UNANSWERED if error.may_have_landed else port.Verdict.NOT_DONE
    return port.Outcome(verdict=verdict, group=read, error=error)
