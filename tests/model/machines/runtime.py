"""What the runtime wants to write, given what it knows: the real decision about a machine group, as writes."""

from typing import Final

from autoscaler.kube.objects import Key
from autoscaler.machines import decide, model
from tests.model.machines import cluster
from tests.model.machines.cluster import BOUND, GATED, GONE, HELD, NEVER, OPEN, Host, Pod, Sent
from tests.model.machines.scenario import Scenario

_NOW: Final = 1000.0
_AGO: Final = {cluster.FRESH: _NOW, cluster.LATER: _NOW - 10.0, cluster.OVER: _NOW - 100.0}
_PHASES: Final = {
    HELD: model.Phase.HELD,
    GATED: model.Phase.GATED,
    OPEN: model.Phase.OPEN,
    BOUND: model.Phase.BOUND,
}
_PODS: Final = 100


class Runtime:
    """Decides; it remembers nothing that is not in the objects."""

    def __init__(self, chosen: Scenario, sleepers: tuple[tuple[int, int], ...]) -> None:
        """Take the scenario, and the type and the ordinal of each sleeper."""
        self._chosen = chosen
        self._sleepers = sleepers
        self._requests = [{"cpu": each.cpu, model.PODS: 1} for each in chosen.types]
        self._types = tuple(
            model.MachineType(name=each.name, maximum=each.maximum, requests=self._requests[number])
            for number, each in enumerate(chosen.types)
        )
        self._type_number = {each.name: number for number, each in enumerate(chosen.types)}
        self._host_number = {each.name: number for number, each in enumerate(chosen.hosts)}
        self._known: dict[tuple[cluster.Content, ...], tuple[Sent, ...]] = {}

    def writes(self, cache: tuple[cluster.Content, ...]) -> tuple[Sent, ...]:
        """Return what is to be written."""
        found = self._known.get(cache)
        if found is None:
            plan = decide.decide(self._group(cache), now=_NOW)
            found = self._known[cache] = tuple(self._sent(cache, command) for command in plan.writes)
        return found

    def _group(self, cache: tuple[cluster.Content, ...]) -> model.Group:
        chosen = self._chosen
        first = len(chosen.visitors)
        last = first + len(self._sleepers)
        guests = [self._guest(number, each) for number, each in enumerate(cache[:first]) if _is_there(each)]
        sleepers = [self._sleeper(number, each) for number, each in enumerate(cache[first:last]) if _is_there(each)]
        nodes = [self._node(number, cache) for number in range(len(chosen.hosts))]
        return model.Group(
            name="group", types=self._types, nodes=tuple(nodes), guests=tuple(guests), sleepers=tuple(sleepers)
        )

    def _guest(self, number: int, pod: cluster.Content) -> model.Guest:
        assert isinstance(pod, Pod)
        visitor = self._chosen.visitors[number]
        return model.Guest(
            key=Key("guests", visitor.name),
            uid=visitor.name,
            version=1,
            type=visitor.type,
            created_at=float(number),
            phase=_PHASES[pod.phase],
            requests=self._requests[self._type_number[visitor.type]],
            node=self._host(pod.node) if pod.phase == BOUND else "",
            is_terminating=pod.leaving,
            barred=visitor.barred,
            promised=self._host(pod.promised) or None,
            tried=frozenset(self._host(each) for each in pod.tried),
            trying_since=_AGO.get(pod.trying),
            unschedulable_since=_AGO.get(pod.unschedulable),
        )

    def _sleeper(self, number: int, pod: cluster.Content) -> model.Sleeper:
        assert isinstance(pod, Pod)
        type_number, ordinal = self._sleepers[number]
        name = f"{self._types[type_number].name}-{ordinal}"
        return model.Sleeper(
            key=Key("sluice", name),
            uid=name,
            version=1,
            type=self._types[type_number].name,
            ordinal=ordinal,
            phase=_PHASES[pod.phase],
            requests=self._requests[type_number],
            node=self._host(pod.node),
        )

    def _node(self, number: int, cache: tuple[cluster.Content, ...]) -> model.Node:
        host, place = self._chosen.hosts[number], len(cache) - len(self._chosen.hosts) + number
        known = cache[place]
        assert isinstance(known, Host)
        bound = [at for at, each in enumerate(cache[:place]) if isinstance(each, Pod) and _is_at(each, number)]
        cpu = sum(self.cpu(at) for at in bound)
        return model.Node(
            name=host.name,
            types=frozenset() if known.dropped else host.types,
            is_ready=known.ready and not known.dropped,
            is_marked=not known.closed and not known.dropped,
            is_closed=known.closed,
            allocatable={"cpu": host.cpu, model.PODS: _PODS},
            used={"cpu": cpu, model.PODS: len(bound)},
        )

    def cpu(self, place: int) -> int:
        """Return what the pod at a place asks for."""
        guests = len(self._chosen.visitors)
        if place < guests:
            return self._chosen.types[self._type_number[self._chosen.visitors[place].type]].cpu
        if place < guests + len(self._sleepers):
            return self._chosen.types[self._sleepers[place - guests][0]].cpu
        return self._chosen.foreign

    def _sent(self, cache: tuple[cluster.Content, ...], command: model.Command) -> Sent:
        place = self._place(command)
        pod = cache[place]
        assert isinstance(pod, Pod)
        shown = model.shown(command)
        text = f"the runtime: {shown.verb} {shown.what}, for {shown.why}"
        opens = isinstance(command, model.OpenGuest | model.OpenSleeper)
        return Sent(place, self._result(pod, command), text, opens)

    def _place(self, command: model.Command) -> int:
        match command:
            case model.PromiseGuest(guest=guest) | model.OpenGuest(guest=guest) | model.RecordTried(guest=guest):
                return next(at for at, each in enumerate(self._chosen.visitors) if each.name == guest.uid)
            case model.DeleteSleeper(sleeper=sleeper) | model.OpenSleeper(sleeper=sleeper):
                key = (self._type_number[sleeper.type], sleeper.ordinal)
                return len(self._chosen.visitors) + self._sleepers.index(key)

    def _result(self, pod: Pod, command: model.Command) -> Pod:
        match command:
            case model.PromiseGuest(node=node, trying_since=since):
                trying = pod.trying if since is None else cluster.FRESH
                return pod._replace(promised=self._host_number[node], trying=trying)
            case model.OpenGuest():
                return pod._replace(phase=OPEN, trying=cluster.FRESH)
            case model.RecordTried(nodes=nodes):
                return pod._replace(tried=frozenset(self._host_number[each] for each in nodes), trying=NEVER)
            case model.DeleteSleeper():
                return GONE  # it has no grace period
            case model.OpenSleeper(node=node):
                return pod._replace(phase=OPEN, node=self._host_number[node])

    def _host(self, number: int) -> str:
        return self._chosen.hosts[number].name if number >= 0 else ""


def _is_there(content: cluster.Content) -> bool:
    return isinstance(content, Pod) and content.phase != cluster.ABSENT


def _is_at(pod: Pod, host: int) -> bool:
    return pod.phase == BOUND and pod.node == host
