"""The StatefulSet controller: keeps one pod for each ordinal, adopts and releases pods, and counts them.

It is held to the real one by the contract tests. ControllerRevisions are no objects here: a template's name is made
from what it says. Events are not simulated.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from autoscaler.api.manifests import Manifest
from autoscaler.kube import kinds
from autoscaler.simulation.cluster import failures, selectors
from autoscaler.simulation.cluster.server import Server
from autoscaler.simulation.cluster.store import Change, Entry, Key
from autoscaler.simulation.cluster.verbs.deletes import Options
from autoscaler.simulation.cluster.verbs.writes import STATUS, Manner
from autoscaler.simulation.controllers import stateful_plans, stateful_pods
from autoscaler.simulation.controllers.pending import Pending
from autoscaler.simulation.controllers.stateful_plans import Act, Revisions, Step

DELAY_SECONDS: Final = 0.05
RETRY_SECONDS: Final = 0.005
RETRY_MOST_SECONDS: Final = 1000.0
BATCH_MOST: Final = 500
_MANNER: Final = Manner(user="system:serviceaccount:kube-system:statefulset-controller")


def run(server: Server) -> None:
    """Run StatefulSets from now on."""
    _StatefulSets(server)


class _StatefulSets:
    def __init__(self, server: Server) -> None:
        self._server = server
        self._store = server.store
        self._members: defaultdict[Key, dict[Key, None]] = defaultdict(dict)
        """Pods by the set that their name speaks of, whoever owns them."""
        self._templates: dict[str, dict[str, Manifest]] = {}
        """Each set's templates by the name of the revision."""
        self._refusals: dict[str, int] = {}
        """How often in a row each set's pods were refused."""
        self._soon: Pending[Key] = Pending(self._look, delay_seconds=DELAY_SECONDS)
        self._store.collection(kinds.STATEFUL_SETS).listeners.append(self._on_set)
        self._store.collection(kinds.PODS).listeners.append(self._on_pod)

    def _on_set(self, change: Change) -> None:
        """Look at what people change; a set's status is written here alone."""
        if change.after is None:
            self._templates.pop(change.shown.uid, None)
            self._refusals.pop(change.shown.uid, None)
        elif change.before is None or _marks(change.before) != _marks(change.after):
            self._soon.add(change.key)

    def _on_pod(self, change: Change) -> None:
        """Look at the set that owns a pod or could adopt it."""
        parent = stateful_pods.parent(change.key)
        if parent is None:
            return
        if change.after is None:
            self._members[parent].pop(change.key)
        else:
            self._members[parent][change.key] = None
        entry = self._store.find(kinds.STATEFUL_SETS, parent)
        if entry is not None and (entry.uid in _owners(change) or _is_new_orphan(change)):
            self._soon.add(parent)

    def _look(self, key: Key) -> None:
        """Bring a set's pods and status to where its spec wants them."""
        entry = self._store.find(kinds.STATEFUL_SETS, key)
        if entry is None:
            return
        body, revisions = entry.object, self._revisions(entry)
        present = self._claimed(body)
        if "deletionTimestamp" not in body["metadata"]:
            plan = stateful_plans.plan(body, present, revisions.update)
            is_done = all(self._carry_out(entry, stage, revisions) for stage in plan.stages)
            self._note(entry, is_done=is_done)
            present = self._claimed(body)
        status = stateful_plans.status(body, present, revisions)
        self._server.writes.update(
            kinds.STATEFUL_SETS, key, lambda old: {**old, "status": status}, manner=_MANNER, subresource=STATUS
        )

    def _revisions(self, entry: Entry) -> Revisions:
        """Remember the template there is now, and name it and the one before."""
        body, update = entry.object, stateful_pods.revision_name(entry.object)
        known = self._templates.setdefault(entry.uid, {})
        known[update] = body["spec"]["template"]
        current: str = body["status"].get("currentRevision", "")
        return Revisions(current=current if current in known else update, update=update)

    def _claimed(self, body: Manifest) -> list[Manifest]:
        """Return a set's pods; first adopt those that match and have no owner, and let go what no longer matches."""
        metadata = body["metadata"]
        found = (self._store.find(kinds.PODS, key) for key in tuple(self._members[_key(body)]))
        claimed = []
        for pod in (entry.object for entry in found if entry is not None):
            owner, matches = stateful_pods.controller_uid(pod), _matches(body, pod)
            if owner == metadata["uid"] and matches:
                claimed.append(pod)
            elif "deletionTimestamp" in metadata:
                continue
            elif owner == metadata["uid"]:
                self._own(pod, lambda owners: [each for each in owners if each["uid"] != metadata["uid"]])
            elif owner is None and matches and not stateful_pods.is_terminating(pod):
                claimed.append(self._own(pod, lambda owners: [*owners, stateful_pods.reference(body)]))
        return claimed

    def _own(self, pod: Manifest, change: Callable[[list[Manifest]], list[Manifest]]) -> Manifest:
        def changed(old: Manifest) -> Manifest:
            metadata = old["metadata"]
            return {**old, "metadata": {**metadata, "ownerReferences": change(metadata.get("ownerReferences") or [])}}

        return self._server.writes.update(kinds.PODS, _key(pod), changed, manner=_MANNER).object

    def _carry_out(self, entry: Entry, stage: Iterable[Step | None], revisions: Revisions) -> bool:
        """Take steps, more at a time as they succeed; tell whether none was refused."""
        for batch in _batches(tuple(stage)):
            done = [self._do(entry, step, revisions) for step in batch if step is not None]
            if not all(done):
                return False
        return True

    def _do(self, entry: Entry, step: Step, revisions: Revisions) -> bool:
        body = entry.object
        key = Key(body["metadata"]["namespace"], f"{body['metadata']['name']}-{step.ordinal}")
        try:
            match step.act:
                case Act.MAKE:
                    self._make(entry, step.ordinal, revisions)
                case Act.DELETE:
                    self._server.deletes.delete(kinds.PODS, key, Options(), _MANNER)
                case Act.LABEL:
                    self._server.writes.update(kinds.PODS, key, _labelled, manner=_MANNER)
        except failures.Refusal as refusal:
            return refusal.code == 404
        return True

    def _make(self, entry: Entry, ordinal: int, revisions: Revisions) -> None:
        body = entry.object
        is_old = stateful_plans.is_made_from_current(body, ordinal)
        revision = revisions.current if is_old else revisions.update
        pod = stateful_pods.new(body, self._templates[entry.uid][revision], ordinal, revision)
        self._server.writes.create(kinds.PODS, pod, namespace=body["metadata"]["namespace"], manner=_MANNER)

    def _note(self, entry: Entry, *, is_done: bool) -> None:
        """Try again what was refused, each time after twice as long."""
        if is_done:
            self._refusals.pop(entry.uid, None)
            return
        count = self._refusals.get(entry.uid, 0)
        self._refusals[entry.uid] = count + 1
        self._soon.later(_key(entry.object), min(RETRY_SECONDS * 2.0**count, RETRY_MOST_SECONDS))


def _batches(steps: tuple[Step | None, ...]) -> Iterator[tuple[Step | None, ...]]:
    """Split into one, two, four and so on."""
    size, start = 1, 0
    while start < len(steps):
        yield steps[start : start + size]
        start, size = start + size, min(2 * size, BATCH_MOST)


def _marks(entry: Entry) -> object:
    metadata = entry.object["metadata"]
    return metadata["generation"], "deletionTimestamp" in metadata


def _owners(change: Change) -> set[str | None]:
    return {stateful_pods.controller_uid(each.object) for each in (change.before, change.after) if each is not None}


def _is_new_orphan(change: Change) -> bool:
    """Tell whether a pod without a controller is new, or has changed what a set adopts it by."""
    if change.after is None or stateful_pods.controller_uid(change.after.object) is not None:
        return False
    if change.before is None:
        return True
    before, after = change.before.object["metadata"], change.after.object["metadata"]
    return bool(before.get("labels") != after.get("labels"))


def _matches(body: Manifest, pod: Manifest) -> bool:
    return selectors.labels_match(body["spec"]["selector"], pod["metadata"].get("labels") or {})


def _labelled(pod: Manifest) -> Manifest:
    metadata = pod["metadata"]
    labels = {**(metadata.get("labels") or {}), **stateful_pods.identity(metadata["name"])}
    return {**pod, "metadata": {**metadata, "labels": labels}}


def _key(body: Manifest) -> Key:
    return Key(body["metadata"]["namespace"], body["metadata"]["name"])
