"""How much of each quota is taken, and what is left of it. Integers only; a copy is where what-if questions are asked.

What is taken is usage and claims together. Whether more than the quota is taken already is no question here: what is
left is then negative, and nothing fits.
"""

from collections.abc import Iterable
from typing import Final

from autoscaler.admission.quota import amounts
from autoscaler.admission.quota.amounts import Amounts, FlavorResource
from autoscaler.admission.quota.cache.queues import CohortKey, Queue, Quota

_NONE: Final = Quota(nominal=0, borrowing_limit=0)


class Ledger:
    """What is taken of the quotas of all queues."""

    def __init__(self) -> None:
        self._queues: dict[str, Queue] = {}
        self._nominal: dict[CohortKey, dict[FlavorResource, int]] = {}
        self._taken: dict[str, dict[FlavorResource, int]] = {}
        self._cohorts: dict[CohortKey, dict[FlavorResource, int]] = {}

    def copy(self) -> "Ledger":
        """Return another one that can be changed without changing this; the queues are shared."""
        made = Ledger()
        made._queues, made._nominal = self._queues, self._nominal
        made._taken = {queue: dict(taken) for queue, taken in self._taken.items()}
        made._cohorts = {cohort: dict(taken) for cohort, taken in self._cohorts.items()}
        return made

    def add_queue(self, queue: Queue) -> None:
        """Take over a queue's quota, and whom it lends to."""
        self._queues[queue.name] = queue
        amounts.add(self._nominal.setdefault(queue.cohort, {}), _nominal(queue))
        amounts.add(self._cohorts.setdefault(queue.cohort, {}), self.taken(queue.name))

    def remove_queue(self, queue: Queue) -> None:
        """Give up a queue's quota; what is taken of it stays noted."""
        del self._queues[queue.name]
        amounts.add(self._nominal[queue.cohort], _nominal(queue), -1)
        amounts.add(self._cohorts[queue.cohort], self.taken(queue.name), -1)

    def add(self, queue: str, taken: Amounts, times: int = 1) -> None:
        """Take so much of a queue's quota; give it back with `times=-1`."""
        total = self._taken.setdefault(queue, {})
        amounts.add(total, taken, times)
        if not total:
            del self._taken[queue]
        known = self._queues.get(queue)
        if known is not None:
            amounts.add(self._cohorts.setdefault(known.cohort, {}), taken, times)

    def taken(self, queue: str) -> Amounts:
        """Return what is taken of a queue's quota."""
        return self._taken.get(queue, {})

    def queues_taken_from(self) -> Iterable[str]:
        """Return the queues of whose quota something is taken."""
        return self._taken.keys()

    def free(self, queue: Queue, key: FlavorResource) -> int:
        """Return how much more a queue may take, borrowing included."""
        left = self._nominal.get(queue.cohort, {}).get(key, 0) - self._cohorts.get(queue.cohort, {}).get(key, 0)
        quota = queue.quotas.get(key, _NONE)
        if quota.borrowing_limit is None:
            return left
        return min(left, quota.nominal + quota.borrowing_limit - self._taken.get(queue.name, {}).get(key, 0))

    def most(self, queue: Queue, key: FlavorResource) -> int:
        """Return how much a queue could take if nothing were taken, borrowing included."""
        shared = self._nominal.get(queue.cohort, {}).get(key, 0)
        quota = queue.quotas.get(key, _NONE)
        return shared if quota.borrowing_limit is None else min(shared, quota.nominal + quota.borrowing_limit)

    def borrows(self, queue: Queue, wanted: Amounts) -> bool:
        """Tell whether a queue would use more than its own if it took so much more."""
        taken = self._taken.get(queue.name, {})
        return any(taken.get(key, 0) + amount > queue.quotas.get(key, _NONE).nominal for key, amount in wanted.items())

    def is_borrowing(self, name: str, keys: Iterable[FlavorResource], less: Amounts) -> bool:
        """Tell whether a queue uses more than its own of any of these, even `less` so much."""
        quotas, taken = self._queues[name].quotas, self._taken.get(name, {})
        return any(taken.get(key, 0) - less.get(key, 0) > quotas.get(key, _NONE).nominal for key in keys)


def _nominal(queue: Queue) -> Amounts:
    return {key: quota.nominal for key, quota in queue.quotas.items()}
