"""Auto Scaling groups with AWS's rules, as its documentation tells them, in virtual time.

Desired stays within the bounds. A launch takes time, may meet an obstacle and is tried again. Lowering desired ends
instances that are not protected, and protection holds from being in service on. Ending an instance by name asks nobody
for protection. It must not know who uses it: what becomes of an instance in a cluster is for its listeners.
"""

import asyncio
import itertools
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from autoscaler import backoff, clock
from autoscaler.api.settings.node_groups import NodeGroups, NodeGroupSpec
from autoscaler.cloud import port
from autoscaler.simulation.cloud import client, faults, news
from autoscaler.simulation.cloud.model import INITIAL_TEMPLATE, Group, Obstacle, Pace, SimulatedInstance

CLUSTER: Final = "simulated"
FORGOTTEN_SECONDS: Final = 3600.0
"""EC2 describes a terminated instance for about an hour."""
ALL_PROTECTED: Final = (
    "Could not scale to desired capacity because all remaining instances are protected from scale-in."
)

Listener = Callable[[SimulatedInstance], None]


class SimulatedCloud:
    """An account in a region. To be made within the virtual loop."""

    def __init__(self, time: clock.Clock, *, pace: Pace | None = None, latency_seconds: float = 0.05) -> None:
        self.clock = time
        self.pace = pace or Pace()
        self.latency_seconds = latency_seconds
        self.faults = faults.Faults()
        self.news = news.News()
        self.groups: dict[port.GroupName, Group] = {}
        self.instances: dict[port.InstanceId, SimulatedInstance] = {}
        """All that ever lived, in the order of their launch: the record to compare accounts with."""
        self.templates: dict[port.TemplateRef, port.Template] = {}
        self.parameters: dict[str, str] = {}
        """Images, by how launch templates name them."""
        self.obstacles: list[Obstacle] = []
        self.on_in_service: list[Listener] = []
        """Told of each instance that is in service: now its kubelet may register a node."""
        self.on_gone: list[Listener] = []
        """Told of each instance that is gone."""
        self._numbers = itertools.count(1)
        self._activity_numbers = itertools.count(1)

    # What a test or a scenario arranges

    def client(self, cluster: str = CLUSTER) -> "client.SimulatedClient":
        """Return the cloud as one cluster sees it."""
        return client.SimulatedClient(self, cluster)

    def interruptions(self) -> news.SimulatedInterruptions:
        return news.SimulatedInterruptions(self.news, self.faults)

    def add_all(self, groups: NodeGroups) -> None:
        """Make the groups of a stack."""
        for spec in groups.groups:
            self.add(spec, cluster=groups.cluster)

    def add(
        self, spec: NodeGroupSpec, *, cluster: str = CLUSTER, desired: int | None = None, is_protecting: bool = True
    ) -> Group:
        """Make a group, which begins with its minimum unless told otherwise."""
        ref = port.TemplateRef(id=f"lt-{spec.name}", version="1")
        self.templates[ref] = INITIAL_TEMPLATE
        group = Group(
            spec=spec,
            cluster=cluster,
            minimum=spec.minimum,
            maximum=spec.maximum,
            desired=spec.minimum if desired is None else desired,
            is_protecting=is_protecting,
            template=ref,
        )
        self.groups[group.name] = group
        self._settle(group)
        return group

    def remove(self, name: port.GroupName) -> None:
        """Delete a group by force, and its instances with it."""
        group = self.groups[name]
        group.desired = group.minimum = 0
        for instance in group.members:
            self._end(instance)
        self._stop_launching(group)
        del self.groups[name]

    def give_away(self, name: port.GroupName, cluster: str) -> None:
        """Tag a group as another cluster's."""
        self.groups[name].cluster = cluster

    def resize(self, name: port.GroupName, *, minimum: int, maximum: int) -> None:
        """Change a group's bounds; desired follows where it would lie outside."""
        group = self.groups[name]
        group.minimum, group.maximum = minimum, maximum
        group.desired = max(minimum, min(maximum, group.desired))
        self._settle(group)

    def retemplate(self, name: port.GroupName, template: port.Template) -> None:
        """Give a group a new version of its launch template; the instances that run stay as they are."""
        group = self.groups[name]
        group.template = replace(group.template, version=str(int(group.template.version) + 1))
        self.templates[group.template] = template

    def hinder(self, obstacle: Obstacle) -> None:
        """Make launches fail."""
        self.obstacles.append(obstacle)

    def relieve(self) -> None:
        """Take all obstacles away; groups try again when they would have."""
        self.obstacles.clear()

    def refresh(self, name: port.GroupName, *, warmup_seconds: float) -> None:
        """Replace a group's instances, one after the other, each by one that is launched before the old one ends."""
        group = self.groups[name]
        self._refresh(group, list(group.members), warmup_seconds)

    def be_late(self, name: port.GroupName, seconds: float | None) -> None:
        """Let the group's launches be seen only so much later, in service at once; None: as usual."""
        self.groups[name].late_seconds = seconds

    def interrupt(self, instance: port.InstanceId) -> None:
        """Announce that a spot instance is taken away, and do it."""
        self.news.tell(port.SpotInterruption(instance=instance))
        self._later(self.pace.spot_notice_seconds, lambda: self._take(self.instances[instance]))

    def recommend_rebalance(self, instance: port.InstanceId) -> None:
        self.news.tell(port.RebalanceRecommended(instance=instance))

    def announce_maintenance(self, instance: port.InstanceId, seconds: float) -> None:
        """Announce that an instance is retired so much later, and do it."""
        self.news.tell(port.MaintenanceScheduled(instances=(instance,), at=self.clock.now() + seconds))
        self._later(seconds, lambda: self._take(self.instances[instance]))

    def break_down(self, instance: port.InstanceId) -> None:
        """Take an instance away without a word before."""
        self._take(self.instances[instance])

    # What AWS does when asked

    def set_desired(self, group: Group, desired: int) -> None:
        if not group.minimum <= desired <= group.maximum:
            raise port.CloudError(
                port.Reason.REFUSED,
                f"New SetDesiredCapacity value {desired} is outside of {group.minimum} to {group.maximum} of "
                f"{group.name}: the stack sets these bounds",
            )
        group.desired = desired
        group.failed_attempts = 0
        self._stop_launching(group)
        self._settle(group)

    def terminate(self, group: Group, instance: port.InstanceId, *, decrement: bool) -> None:
        member = group.instances.get(instance)
        if member is None:
            raise port.CloudError(
                port.Reason.NOT_FOUND, f"{group.name} has no instance {instance}: it may be gone already; read it again"
            )
        if decrement and group.desired - 1 < group.minimum:
            raise port.CloudError(
                port.Reason.REFUSED,
                f"ending {instance} would leave {group.name} with less than {group.minimum}: let it be replaced",
            )
        if not member.counts:
            return
        group.desired -= 1 if decrement else 0
        self._end(member)
        self._settle(group)

    def image(self, ref: port.TemplateRef) -> str:
        """Return which image a launch template means now."""
        named = self.templates[ref].image_id
        return self.parameters.get(named, named)

    def describe(self, instances: Iterable[port.InstanceId]) -> dict[port.InstanceId, port.InstanceTimes]:
        """Return lives, but of those that ended long ago."""
        horizon = self.clock.now() - FORGOTTEN_SECONDS
        found = (self.instances[one] for one in instances if one in self.instances)
        return {
            instance.id: instance.as_life()
            for instance in found
            if instance.ended_at is None or instance.ended_at > horizon
        }

    # What groups do by themselves

    def _settle(self, group: Group) -> None:
        """Bring a group nearer to what is desired of it."""
        surplus = len(group.members) - group.desired - group.replacing
        if surplus > 0:
            self._shrink(group, surplus)
        elif surplus < 0 and group.launching is None and "Launch" not in group.suspended:
            self._launch_later(group, self.pace.reaction_seconds)

    def _refresh(self, group: Group, old: list[SimulatedInstance], warmup_seconds: float) -> None:
        """Launch one more, and once it is warm end an old one."""
        left = [instance for instance in old if instance.counts]
        group.replacing = 1 if left else 0
        self._settle(group)

        def end_one() -> None:
            if left[0].counts:
                group.replacing = 0
                self._end(left[0])
            self._refresh(group, left[1:], warmup_seconds)

        if left:
            self._later(self.pace.reaction_seconds + self.pace.pending_seconds + warmup_seconds, end_one)

    def _shrink(self, group: Group, surplus: int) -> None:
        """End what is not protected, the oldest first; protection begins with being in service."""
        victims = [
            instance
            for instance in group.members
            if instance.is_listed and (instance.lifecycle is port.Lifecycle.PENDING or not instance.is_protected)
        ][:surplus]
        for instance in victims:
            self._end(instance)
        if len(victims) < surplus:
            self._record(group, port.ActivityKind.TERMINATE, message=ALL_PROTECTED)

    def _launch_later(self, group: Group, seconds: float) -> None:
        group.launching = self._later(seconds, lambda: self._launch(group))

    def _stop_launching(self, group: Group) -> None:
        if group.launching is not None:
            group.launching.cancel()
            group.launching = None

    def _launch(self, group: Group) -> None:
        group.launching = None
        wanted = group.desired + group.replacing - len(group.members)
        if wanted <= 0 or group.name not in self.groups:
            return
        now = self.clock.now()
        obstacle = next((one for one in self.obstacles if one.hinders(group.spec.key, now)), None)
        if obstacle is None:
            group.failed_attempts = 0
            for _ in range(wanted):
                self._start(group)
            return
        self._fail(group, obstacle)

    def _fail(self, group: Group, obstacle: Obstacle) -> None:
        message = obstacle.message(group.spec.key)
        self._record(group, port.ActivityKind.LAUNCH, message=message, failure=obstacle.failure)
        self.news.tell(port.GroupChanged(group=group.name))
        group.failed_attempts += 1
        retries = backoff.Backoff(first_seconds=self.pace.retry_seconds, longest_seconds=self.pace.retry_max_seconds)
        self._launch_later(group, retries.pause(group.failed_attempts))

    def _start(self, group: Group) -> None:
        instance = SimulatedInstance(
            id=port.InstanceId(f"i-{next(self._numbers):017x}"),
            group=group.name,
            key=group.spec.key,
            capacity_type=group.spec.capacity_type,
            launched_at=self.clock.now(),
            template=group.template,
            image_id=self.image(group.template),
            is_protected=group.is_protecting,
            is_listed=group.late_seconds is None,
        )
        group.instances[instance.id] = self.instances[instance.id] = instance
        self._record(group, port.ActivityKind.LAUNCH, instance=instance.id)
        seconds = self.pace.pending_seconds if group.late_seconds is None else group.late_seconds
        self._later(seconds, lambda: self._serve(group, instance))

    def _serve(self, group: Group, instance: SimulatedInstance) -> None:
        if instance.lifecycle is not port.Lifecycle.PENDING:
            return
        instance.lifecycle, instance.is_listed = port.Lifecycle.IN_SERVICE, True
        self.news.tell(port.GroupChanged(group=group.name))
        for listener in self.on_in_service:
            listener(instance)
        self._settle(group)

    def _take(self, instance: SimulatedInstance) -> None:
        """End an instance on the provider's own account; its group replaces it."""
        if not instance.counts:
            return
        instance.is_end_told = False
        self._end(instance)
        if instance.group in self.groups:
            self._settle(self.groups[instance.group])

    def _end(self, instance: SimulatedInstance) -> None:
        instance.lifecycle, instance.is_listed = port.Lifecycle.LEAVING, True
        instance.ended_at = self.clock.now()
        group = self.groups[instance.group]
        self._record(group, port.ActivityKind.TERMINATE, instance=instance.id)
        self.news.tell(port.InstancesChanged(instances=(instance.id,)))
        self._later(self.pace.terminate_seconds, lambda: self._gone(group, instance))

    def _gone(self, group: Group, instance: SimulatedInstance) -> None:
        instance.is_over = True
        group.instances.pop(instance.id, None)
        self.news.tell(port.InstancesChanged(instances=(instance.id,)))
        for listener in self.on_gone:
            listener(instance)

    def _record(
        self,
        group: Group,
        kind: port.ActivityKind,
        *,
        message: str = "",
        instance: port.InstanceId | None = None,
        failure: port.LaunchFailure | None = None,
    ) -> None:
        group.activities.append(
            port.Activity(
                id=f"activity-{next(self._activity_numbers)}",
                kind=kind,
                started_at=self.clock.now(),
                instance=instance,
                failure=failure,
                message=message,
            )
        )

    def _later(self, seconds: float, act: Callable[[], None]) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(seconds, act)
