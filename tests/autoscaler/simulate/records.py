"""A small day, of which a test changes what matters."""

from typing import Any

from autoscaler.api.resources.pools import CapacityType
from autoscaler.api.settings.node_groups import NodeGroupKey
from autoscaler.cloud.port import Verdict
from autoscaler.simulate.observation.guest_record import GuestLife, Guests, MachineName, MachineUse
from autoscaler.simulate.observation.job_record import JobLife, Step, StepKind
from autoscaler.simulate.observation.record import InstanceLife, Logged, Record, Told
from autoscaler.simulate.observation.waits import Wait, Waits

START = 1_782_799_200.0
"""2026-06-30T06:00:00Z."""
HOUR = 3600.0
DAY = 24 * HOUR


def key(pool: str = "spot", zone: str = "a", kind: str = "m7i.4xlarge") -> NodeGroupKey:
    return NodeGroupKey(pool=pool, zone=zone, instance_type=kind)


GROUPS = {f"{pool}.{zone}": key(pool, zone) for pool in ("spot", "gpu") for zone in ("a", "b")}


def instance(name: str, begins: float, ends: float | None = None, *, group: str = "spot.a") -> InstanceLife:
    """Make an instance that lives between two moments, in seconds after the start."""
    return InstanceLife(
        id=name,
        key=GROUPS[group],
        capacity_type=CapacityType.SPOT,
        launched_at=START + begins,
        ended_at=None if ends is None else START + ends,
    )


def waits(*seconds: float | None, scope: str = "builds", work: str = "compile") -> Waits:
    """Make waits of so many seconds; None: it still waits."""
    made = (Wait(came_at=START, began_at=None if one is None else START + one) for one in seconds)
    return Waits(scope=scope, work=work, what="jobs", waits=tuple(made))


def step(kind: StepKind, seconds: float, before: int, after: int, *, wanted: int | None = None, why: str = "") -> Step:
    return Step(
        at=START + seconds, kind=kind, before=before, after=after, wanted=after if wanted is None else wanted, why=why
    )


def job(*steps: Step, name: str = "ranking-0001", came: float = 0.0, ended: float | None = None) -> JobLife:
    """Make a queued job that came, and ended, so many seconds after the start."""
    return JobLife(
        namespace="research",
        name=name,
        work=name.rpartition("-")[0],
        queue="training",
        came_at=START + came,
        ended_at=None if ended is None else START + ended,
        steps=steps,
    )


SMALL = MachineName(group="notebooks", type="small")


def guest(
    name: str = "notebook-0001", came: float = 0.0, waited: float | None = 2.0, *, held: bool = True
) -> GuestLife:
    """Make a guest that came so many seconds after the start and waited so many; None: it still waits."""
    return GuestLife(
        namespace="labs",
        name=name,
        machine=SMALL,
        came_at=START + came,
        began_at=None if waited is None else START + came + waited,
        is_room_held=held,
    )


def guests(*lives: GuestLife, most_used: int = 1, beyond: int = 0) -> Guests:
    """Make the guests of a day, on four machines of one type."""
    use = MachineUse(machine=SMALL, maximum=4, most_used=most_used)
    return Guests(lives=lives, uses=(use,), beyond_maximum=beyond)


def logged(event: str, seconds: float, **fields: Any) -> Logged:
    return Logged(at=START + seconds, event=event, fields=fields)


def desired(seconds: float, group: str, before: int, after: int, verdict: Verdict = Verdict.LANDED) -> Logged:
    return logged("desired_set", seconds, group=group, before=before, after=after, verdict=verdict)


def told(reason: str, seconds: float, message: str, *, name: str = "compile-1", namespace: str = "builds") -> Told:
    return Told(at=START + seconds, reason=reason, message=message, kind="Pod", namespace=namespace, name=name)


def record(**fields: Any) -> Record:
    empty: dict[str, Any] = {"starts_at": START, "ends_at": START + DAY, "instances": (), "waits": (), "groups": GROUPS}
    return Record(**{**empty, **fields})
