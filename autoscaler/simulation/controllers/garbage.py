"""The garbage collector: dependents go when their last owner is gone, before it, or are let go, as was asked."""

from typing import Final

from autoscaler.api.manifests import Manifest
from autoscaler.kube.kinds import ResourceType
from autoscaler.simulation.cluster.server import Server
from autoscaler.simulation.cluster.store import Change, Key
from autoscaler.simulation.cluster.verbs.deletes import FOREGROUND, ORPHAN, Options
from autoscaler.simulation.cluster.verbs.writes import Manner
from autoscaler.simulation.controllers.pending import Pending

DELAY_SECONDS: Final = 0.1
_MANNER: Final = Manner(user="system:serviceaccount:kube-system:generic-garbage-collector")
Place = tuple[ResourceType, Key]


def run(server: Server) -> None:
    """Collect garbage from now on."""
    server.store.listeners.append(_Collector(server).on_change)


class _Collector:
    def __init__(self, server: Server) -> None:
        self._server = server
        self._store = server.store
        self._dependents: dict[str, dict[Place, None]] = {}
        self._pending: Pending[Place] = Pending(self._look, delay_seconds=DELAY_SECONDS)

    def on_change(self, change: Change) -> None:
        place = (change.resource, change.key)
        before = _owners(change.before.object) if change.before else {}
        after = _owners(change.after.object) if change.after else {}
        for uid in before.keys() - after.keys():
            self._forget(uid, place)
        for uid in after:
            self._dependents.setdefault(uid, {})[place] = None
        if change.after is None:
            self._pending.extend(self._dependents.get(change.shown.uid, ()))
            self._pending.extend(self._waiting(before))
        elif _is_held(change.after.object) or (after != before and self._lacks_owner(change.key, after)):
            self._pending.add(place)

    def _look(self, place: Place) -> None:
        entry = self._store.find(*place)
        if entry is None:
            return
        body, uid = entry.object, entry.uid
        dependents = [other for other in self._dependents.get(uid, ()) if self._store.find(*other)]
        if _is_held(body, ORPHAN):
            for other in dependents:
                self._release(other, {uid})
            self._drop_finalizer(place, ORPHAN)
        elif _is_held(body, FOREGROUND):
            self._delete_dependents(place, uid, dependents)
        else:
            self._judge(place, body, has_dependents=bool(dependents))

    def _judge(self, place: Place, body: Manifest, *, has_dependents: bool) -> None:
        """Delete an object that has owners, none of which remains."""
        owners = _owners(body)
        if not owners or "deletionTimestamp" in body["metadata"]:
            return
        absent = {uid for uid, reference in owners.items() if not self._is_there(place[1], reference)}
        leaving = {uid for uid in owners.keys() - absent if self._is_leaving(uid)}
        staying = owners.keys() - absent - leaving
        if staying:
            if absent or leaving:
                self._release(place, absent | leaving)
            return
        policy = "Foreground" if leaving and has_dependents else "Background"
        self._delete(place, body, policy)

    def _delete_dependents(self, place: Place, uid: str, dependents: list[Place]) -> None:
        """Let the owner go once no dependent is left that holds it."""
        entries = [(other, entry) for other in dependents if (entry := self._store.find(*other))]
        if not any(_owners(entry.object)[uid].get("blockOwnerDeletion") for _, entry in entries):
            self._drop_finalizer(place, FOREGROUND)
        for other, entry in entries:
            self._judge(other, entry.object, has_dependents=bool(self._dependents.get(entry.uid)))

    def _delete(self, place: Place, body: Manifest, policy: str) -> None:
        options = Options(uid=body["metadata"]["uid"], propagation=policy)
        self._server.deletes.delete(*place, options, _MANNER)

    def _release(self, place: Place, uids: set[str]) -> None:
        def without(body: Manifest) -> Manifest:
            kept = [owner for owner in body["metadata"].get("ownerReferences", ()) if owner["uid"] not in uids]
            return {**body, "metadata": {**body["metadata"], "ownerReferences": kept}}

        self._server.writes.update(*place, without, manner=_MANNER)

    def _drop_finalizer(self, place: Place, finalizer: str) -> None:
        def without(body: Manifest) -> Manifest:
            kept = [name for name in body["metadata"].get("finalizers", ()) if name != finalizer]
            return {**body, "metadata": {**body["metadata"], "finalizers": kept}}

        if self._store.find(*place):
            self._server.writes.update(*place, without, manner=_MANNER)

    def _forget(self, uid: str, place: Place) -> None:
        known = self._dependents.get(uid, {})
        known.pop(place, None)
        if not known:
            self._dependents.pop(uid, None)

    def _waiting(self, owners: dict[str, Manifest]) -> list[Place]:
        """Return the owners that wait for their dependents to go."""
        return [place for uid in owners if (place := self._store.find_uid(uid)) and self._is_leaving(uid)]

    def _lacks_owner(self, key: Key, owners: dict[str, Manifest]) -> bool:
        return any(not self._is_there(key, reference) for reference in owners.values())

    def _is_there(self, key: Key, reference: Manifest) -> bool:
        """Tell whether an owner exists: by uid and name, and in the dependent's own namespace if it has one."""
        place = self._store.find_uid(reference["uid"])
        if place is None:
            return False
        resource, owner = place
        return owner.name == reference["name"] and (not resource.namespaced or owner.namespace == key.namespace)

    def _is_leaving(self, uid: str) -> bool:
        place = self._store.find_uid(uid)
        entry = self._store.find(*place) if place else None
        return entry is not None and _is_held(entry.object, FOREGROUND)


def _owners(body: Manifest) -> dict[str, Manifest]:
    return {reference["uid"]: reference for reference in body["metadata"].get("ownerReferences") or ()}


def _is_held(body: Manifest, *finalizers: str) -> bool:
    """Tell whether a deleted object waits for the garbage collector."""
    metadata = body["metadata"]
    if "deletionTimestamp" not in metadata:
        return False
    return any(name in metadata.get("finalizers", ()) for name in finalizers or (FOREGROUND, ORPHAN))
