"""The server's objects as auditors read them: usage, pods and slices, reckoned anew from what the objects say."""

from collections import Counter
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field

from tests.model.contents import Cell, Facts, JobFacts, PodFacts, WorkloadFacts


@dataclass(slots=True)
class Seen:
    """The server's objects."""

    jobs: dict[str, JobFacts] = field(default_factory=dict)
    parents: dict[str, WorkloadFacts] = field(default_factory=dict)
    slices: dict[str, WorkloadFacts] = field(default_factory=dict)
    pods: dict[str, PodFacts] = field(default_factory=dict)

    usage: int = 0

    @classmethod
    def of(cls, objects: Iterable[Facts]) -> "Seen":
        """Sort objects by their kinds."""
        seen = cls()
        for facts in objects:
            match facts:
                case JobFacts():
                    seen.jobs[facts.uid] = facts
                case PodFacts():
                    seen.pods[facts.uid] = facts
                case WorkloadFacts():
                    (seen.slices if facts.is_slice else seen.parents)[facts.uid] = facts
        seen.usage = sum(map(seen.use_of, seen.parents.values())) + seen.strays()
        return seen

    def slices_of(self, parent: WorkloadFacts) -> list[WorkloadFacts]:
        return [each for each in self.slices.values() if each.owner == parent.uid]

    def pods_of(self, parent: WorkloadFacts) -> list[PodFacts]:
        """Return the pods that belong to a Workload's job and have not ended."""
        return [each for each in self.pods.values() if each.owner == parent.job and not each.ended]

    def use_of(self, parent: WorkloadFacts) -> int:
        """Return what a Workload and its slices use (rule 4)."""
        return sum(count for _, count in self._uses(parent))

    def uses_of(self, parent: WorkloadFacts) -> Counter[Cell]:
        """Return what a Workload and its slices use of each quota: slices of one that has nothing may have another."""
        found: Counter[Cell] = Counter()
        for each, count in self._uses(parent):
            if each.cell is not None:
                found[each.cell] += count
        return found

    def _uses(self, parent: WorkloadFacts) -> Iterator[tuple[WorkloadFacts, int]]:
        if parent.granted is None:
            return
        yield parent, min(parent.spec, parent.granted)
        for each in self.slices_of(parent) if not (parent.evicted or parent.finished) else ():
            if each.granted is not None and each.uid not in parent.folded:
                yield each, min(each.spec, each.granted)

    def is_outlived(self, parent: WorkloadFacts, unseen: Container[str] = ()) -> bool:
        """Tell whether pods run on when a Workload's job is gone: it keeps its quota until they end."""
        every = [each for each in self.pods.values() if each.stamped == parent.job and each.owner != parent.job]
        return any(each.is_open and not each.leaving and each.uid not in unseen for each in every)

    def strays(self) -> int:
        """Return how many open pods count by themselves: their job has no Workload that is admitted."""
        return len(self._strays())

    def used(self) -> Counter[Cell]:
        """Return what is used of each quota."""
        found: Counter[Cell] = Counter()
        for each in self.parents.values():
            found += self.uses_of(each)
        found.update(each.cell for each in self._strays() if each.cell is not None)
        return found

    def _strays(self) -> list[PodFacts]:
        known = {each.job for each in self.parents.values() if each.granted is not None}
        every = self.pods.values()
        return [pod for pod in every if pod.is_open and pod.stamped is not None and pod.stamped not in known]

    def claimants(self, besides: str = "") -> list[WorkloadFacts]:
        """Return those that wait and have a claim."""
        every = (*self.parents.values(), *self.slices.values())
        return [each for each in every if each.claim and each.uid != besides and self._waits(each)]

    def claims(self, besides: str = "") -> int:
        """Return what is claimed by others than one: of each that still waits, no more than it asks for now."""
        return sum(min(each.spec, each.claim or 0) for each in self.claimants(besides))

    def _waits(self, workload: WorkloadFacts) -> bool:
        if workload.granted is not None or workload.leaving or not workload.active:
            return False
        if not workload.is_slice:
            return True
        parent = self.parents.get(workload.owner or "")
        return parent is not None and parent.granted is not None and not (parent.evicted or parent.leaving)
