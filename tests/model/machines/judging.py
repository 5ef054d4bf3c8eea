"""What must be true of machine groups in every state, and once nothing moves any more. Counted anew from pods."""

from collections.abc import Iterator

from tests.model.machines.cluster import BOUND, GATED, HELD, OPEN, Host, Pod, State
from tests.model.machines.world import Move, World


def of_state(world: World, state: State) -> Iterator[str]:
    """Say which type has more open guests and sleepers than there are machines."""
    for number, each in enumerate(world.scenario.types):
        there = _open(world, state, number)
        if len(there) > each.maximum:
            names = ", ".join(world.name(place) for place in there)
            yield f"{names} are open, and there are {each.maximum} machines of type {each.name}"


def of_step(world: World, move: Move, before: State) -> Iterator[str]:
    """Say what the runtime may not write."""
    if move.is_write and move.place < world.first_sleeper and world.pod(before, move.place).phase == HELD:
        yield f"{world.name(move.place)} was written to while a gate of others was on it"


def of_end(world: World, state: State) -> Iterator[str]:
    """Say who waits beside room, and which sleepers are not where they should be."""
    for place in range(world.first_sleeper):
        yield from _unserved(world, state, place)
    for number in range(len(world.scenario.types)):
        yield from _sleepers(world, state, number)


def _open(world: World, state: State, number: int) -> list[int]:
    """Return the places of the open guests and sleepers of a type."""
    every = [place for place in range(world.foreign) if world.type_of(place) == number]
    return [place for place in every if world.pod(state, place).phase in {OPEN, BOUND}]


def _unserved(world: World, state: State, place: int) -> Iterator[str]:
    pod, number = world.pod(state, place), world.type_of(place)
    if pod.phase not in {GATED, OPEN}:
        return
    if world.scenario.visitors[place].must_be_served:
        yield f"{world.name(place)} waits, and its room was taken by another"
    guests = [each for each in _open(world, state, number) if each < world.first_sleeper]
    if pod.phase == GATED and len(guests) >= world.scenario.types[number].maximum:
        return
    for host, each in enumerate(world.scenario.hosts):
        is_usable = not _dropped(world, state, host) and world.takes(state, host, place)
        if is_usable and host not in pod.tried and _room(world, state, host, number) >= world.runtime.cpu(place):
            yield f"{world.name(place)} waits, and {each.name} has room or a sleeper of its type holds it"


def _room(world: World, state: State, host: int, number: int) -> int:
    """Return what is free on a node, and what sleepers of a type hold there."""
    held = [place for place in _open(world, state, number) if place >= world.first_sleeper]
    bound = [place for place in held if world.pod(state, place) == Pod(BOUND, host)]
    return world.free(state, host) + sum(world.runtime.cpu(place) for place in bound)


def _sleepers(world: World, state: State, number: int) -> Iterator[str]:
    machine = world.scenario.types[number]
    there = [place for place in _open(world, state, number) if place >= world.first_sleeper]
    for place in there:
        pod = world.pod(state, place)
        if pod.phase == OPEN:
            yield f"{world.name(place)} is open and has no node"
        host = world.host(state, pod.node)
        if pod.phase == BOUND and (not _is_good(host) or machine.name not in world.scenario.hosts[pod.node].types):
            yield f"{world.name(place)} holds room on a node that is not ready"
    guests = [place for place in range(world.first_sleeper) if world.type_of(place) == number]
    phases = [world.pod(state, place).phase for place in guests]
    wanted = max(0, machine.maximum - sum(each in {GATED, OPEN, BOUND} for each in phases))
    if len(there) > wanted:
        yield f"{len(there)} sleepers of type {machine.name} are open, and {wanted} are wanted"
    may_open = len(_open(world, state, number)) < machine.maximum
    if machine.sleepers and len(there) < wanted and may_open and not _anybody_waits(world, state):
        yield from _unused(world, state, number)


def _unused(world: World, state: State, number: int) -> Iterator[str]:
    machine = world.scenario.types[number]
    for host, each in enumerate(world.scenario.hosts):
        is_good = _is_good(world.host(state, host)) and machine.name in each.types
        if is_good and world.free(state, host) >= machine.cpu:
            yield f"{each.name} has room that no sleeper of type {machine.name} holds"


def _anybody_waits(world: World, state: State) -> bool:
    return any(world.pod(state, place).phase in {GATED, OPEN} for place in range(world.first_sleeper))


def _dropped(world: World, state: State, host: int) -> bool:
    return world.host(state, host).dropped


def _is_good(host: Host) -> bool:
    return host.ready and not host.closed and not host.dropped
