"""Carries out writes on Workloads as an API server would: merge patches, deletions and versions that must match."""

import copy
from collections.abc import Iterable

from autoscaler.admission.quota.cache.configuration import Tables
from autoscaler.admission.writes import On, Write
from autoscaler.api.manifests import Manifest
from autoscaler.control.writes import Verb
from autoscaler.kube.objects import Key
from autoscaler.simulation.cluster import merging
from tests.autoscaler.admission import builders


class Conflict(Exception):  # noqa: N818  # it is what the API server calls it
    """The object is not as it was read, or not there."""


class Cluster:
    """The Workloads of a cluster, as manifests, and the tables that show them."""

    def __init__(self, tables: Tables, workloads: Iterable[Manifest] = ()) -> None:
        self.tables = tables
        self.version = 1000
        self.workloads: dict[Key, Manifest] = {}
        for manifest in workloads:
            self.put(manifest)

    def put(self, manifest: Manifest) -> None:
        """Store a Workload as somebody wrote it, with a new version."""
        self.version += 1
        stored = copy.deepcopy(manifest)
        stored["metadata"]["resourceVersion"] = str(self.version)
        self.workloads[_key(stored)] = stored
        self.tables.workloads.seen(builders.decoded(stored))

    def change(self, name: str, patch: Manifest) -> None:
        """Merge a patch into a Workload, whoever sends it."""
        self.put(merging.merge(self.workloads[Key(builders.NAMESPACE, name)], patch))

    def remove(self, name: str) -> None:
        """Let a Workload be gone."""
        self.version += 1
        gone = self.workloads.pop(Key(builders.NAMESPACE, name))
        gone["metadata"]["resourceVersion"] = str(self.version)
        self.tables.workloads.gone(builders.decoded(gone).meta)

    def apply(self, writes: Iterable[Write]) -> None:
        """Carry out writes on Workloads, one after the other."""
        for write in writes:
            self.apply_one(write)

    def apply_one(self, write: Write) -> None:
        """Carry out one write.

        Raises:
            Conflict: the object is not as it was read.
        """
        assert write.on is On.WORKLOAD
        if write.verb is Verb.CREATE:
            self._create(write)
            return
        found = self.workloads.get(write.key)
        if found is None or found["metadata"]["uid"] != write.uid:
            raise Conflict(f"{write.key} is not there")
        if write.resource_version not in (None, int(found["metadata"]["resourceVersion"])):
            raise Conflict(f"{write.key} is not as it was read")
        match write.verb:
            case Verb.DELETE:
                self._delete(found)
            case Verb.PATCH_STATUS:
                self.put(merging.merge(found, {"status": dict(write.body)}))
            case _:
                self.put(merging.merge(found, dict(write.body)))

    def _create(self, write: Write) -> None:
        if write.key in self.workloads:
            raise Conflict(f"{write.key} exists")
        self.version += 1
        manifest = merging.merge({}, dict(write.body))
        manifest["metadata"].setdefault("uid", f"u-{write.key.name}-{self.version}")
        manifest["metadata"].setdefault("creationTimestamp", builders.time(0))
        self.put(manifest)

    def _delete(self, found: Manifest) -> None:
        if found["metadata"].get("finalizers"):
            self.put(merging.merge(found, {"metadata": {"deletionTimestamp": builders.time(0)}}))
        else:
            self.remove(found["metadata"]["name"])


def _key(manifest: Manifest) -> Key:
    return Key(manifest["metadata"].get("namespace", ""), manifest["metadata"]["name"])
