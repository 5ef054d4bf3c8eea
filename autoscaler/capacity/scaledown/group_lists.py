"""Group lists: the ConfigMaps that say which node groups a pool has, and so which of them leave while it stays. Pure.

Other groups are another list, and the old one is deleted: what it had and no list has that stays is to leave. Once its
list is gone a group goes on leaving until it is deleted, or it would take pods again if `pulumi up` broke off between.
Groups that the stack did not make are in no list, and are left alone.
"""

from collections.abc import Iterable
from typing import Final

import msgspec
import pydantic

from autoscaler.api import keys, names
from autoscaler.api.settings import group_list
from autoscaler.api.settings.node_groups import NodeGroupKey
from autoscaler.cloud import port as cloud
from autoscaler.kube import objects


class Listed(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A ConfigMap of the runtime's namespace."""

    meta: objects.Meta
    groups: group_list.GroupList | None
    """None: it is no group list, or makes no sense to us."""

    @property
    def pool(self) -> str:
        return self.meta.labels.get(keys.GROUP_LIST) or (self.groups.pool if self.groups is not None else "")

    @property
    def stays(self) -> bool:
        return self.meta.deleted_at is None


class _ConfigMap(msgspec.Struct, frozen=True):
    data: dict[str, str] = {}  # msgspec copies it


_DECODER: Final = msgspec.json.Decoder(_ConfigMap)


def decode(raw: bytes | msgspec.Raw) -> Listed:
    """Decode a ConfigMap; one that is no group list has none."""
    meta = objects.simple(raw).meta
    if not is_list(meta):
        return Listed(meta=meta, groups=None)
    try:
        text = _DECODER.decode(raw).data[group_list.FIELD]
        return Listed(meta=meta, groups=group_list.GroupList.model_validate_json(text))
    except (KeyError, msgspec.DecodeError, pydantic.ValidationError):
        return Listed(meta=meta, groups=None)


def is_list(meta: objects.Meta) -> bool:
    """Tell whether a ConfigMap is a group list; one that we hold stays one, whoever takes its label off."""
    return keys.GROUP_LIST in meta.labels or keys.FINALIZER in meta.finalizers


def leaving(lists: Iterable[Listed], groups: Iterable[cloud.NodeGroup]) -> dict[NodeGroupKey, float | None]:
    """Return the groups that leave, and since when their list waits for it; None: none does."""
    known = [(each, each.groups) for each in lists if each.groups is not None]
    wanted = {key for each, listed in known if each.stays for key in listed.groups}
    clusters = {(listed.pool, listed.cluster) for each, listed in known if each.stays}
    unlisted = [group for group in groups if group.key not in wanted] if clusters else []
    found: dict[NodeGroupKey, float | None] = {
        group.key: None
        for group in unlisted
        for pool, cluster in clusters
        if pool == group.key.pool and group.name == _name(cluster, group.key)
    }
    going = [(each.meta.deleted_at, listed) for each, listed in known if not each.stays]
    for at, listed in sorted(going, key=lambda one: one[0] or 0.0, reverse=True):
        found |= dict.fromkeys((key for key in listed.groups if key not in wanted), at)
    return found


def _name(cluster: str, key: NodeGroupKey) -> str:
    return names.node_group(cluster, pool=key.pool, zone=key.zone, instance_type=key.instance_type)
