"""What the API server itself saw of capacity, by its audit log: in which order, and under which condition."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest

from autoscaler.api import keys
from tests.e2e import waiting
from tests.e2e.capacity import conftest
from tests.e2e.capacity.site import Object, Site

TAINTS = {keys.RESERVED_FOR: f"{keys.RESERVED_FOR_NONE}:NoSchedule"}
SECOND = timedelta(seconds=1)
"""The grain of the times that AWS tells."""


class Seen(NamedTuple):
    """A request that was answered well."""

    came_at: datetime
    done_at: datetime
    verb: str
    resource: str
    name: str
    uri: str
    body: Object


def seen(site: Site, verb: str, resource: str) -> Iterator[Seen]:
    """Yield all such requests, in the order of their answers."""
    for line in site.plane.blueprint.paths.audit_log.read_text().splitlines():
        event = json.loads(line)
        about = event.get("objectRef", {})
        kind = "/".join(filter(None, (about.get("resource"), about.get("subresource"))))
        if event["verb"] == verb and kind == resource and event["responseStatus"]["code"] < 300:
            came, done = (_time(event[stage]) for stage in ("requestReceivedTimestamp", "stageTimestamp"))
            body = event.get("requestObject", {})
            yield Seen(came, done, verb, kind, about.get("name", ""), event["requestURI"], body)


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def ends(site: Site) -> dict[str, datetime]:
    """Return when AWS was told to end instances, by instance."""
    found: dict[str, datetime] = {}
    for name in site.described():
        for each in site.autoscaling.describe_scaling_activities(AutoScalingGroupName=name)["Activities"]:
            words = each["Description"].split()
            if words[0] == "Terminating":
                found[words[-1]] = each["StartTime"]
    return found


@pytest.mark.accept("G11")
def test_pods_of_a_marked_node_are_listed_past_every_cache_before_its_instance_ends(
    site: Site, start: conftest.Start
) -> None:
    pool = site.add_pool("listed", limits__maxIdleSeconds=0)
    site.add_group(pool, sizes=(0, 3, 5))
    instances = {name: node["spec"]["providerID"].rsplit("/", 1)[-1] for name, node in site.wait_nodes(3).items()}
    start()
    site.wait_nodes(0)
    ended, lists = ends(site), list(seen(site, "list", "pods"))
    assert ended.keys() == set(instances.values())
    marks = {each.name: each.done_at for each in seen(site, "patch", "nodes") if keys.REMOVING in str(each.body)}
    for node, instance in instances.items():
        looks = [each for each in lists if f"spec.nodeName%3D{node}" in each.uri]
        between = [each for each in looks if marks[node] < each.came_at < ended[instance] + SECOND]
        assert between, f"{node} was not looked at between its mark and its end"
        assert not [each.uri for each in between if "resourceVersion" in each.uri]


@pytest.mark.accept("P14", part="no write to the books lands on a version that it was not made from")
@pytest.mark.accept("P15", part="an instance is kept for a pod before that may go there")
def test_books_are_written_onto_the_version_they_were_read_at_and_a_taint_comes_before_its_toleration(
    site: Site, start: conftest.Start
) -> None:
    pool = site.add_pool("seen", ephemeral=True)
    group = site.add_group(pool, sizes=(0, 0, 6), taints=TAINTS)
    start()
    site.wait_known(group)
    for number in range(3):
        site.add_pod(f"p-{number}", cpu="100m")
    site.wait_bound()
    uids = {pod["metadata"]["uid"] for pod in site.pods().values()}
    site.delete_pods()
    site.wait_nodes(0)
    waiting.eventually(lambda: len([each for each in _books(site, pool) if "Terminated" in str(each.body)]) == 3)
    for each in _books(site, pool):
        assert {"uid", "resourceVersion"} <= each.body["metadata"].keys(), each.uri
    kept = first(site, "nodes", "taints")
    let = first(site, "pods", "tolerations")
    assert uids <= let.keys()
    assert not {uid for uid in uids if kept[uid].done_at > let[uid].came_at}


def _books(site: Site, pool: str) -> list[Seen]:
    return [each for each in seen(site, "patch", "instances/status") if each.name.startswith(f"{pool}-")]


def first(site: Site, resource: str, field: str) -> dict[str, Seen]:
    """Return the first write of a field that names a pod as the one that an instance is kept for, by its UID."""
    found: dict[str, Seen] = {}
    for each in seen(site, "patch", resource):
        given: list[dict[str, Any]] = each.body.get("spec", {}).get(field) or []
        for uid in [one["value"] for one in given if one.get("key") == keys.RESERVED_FOR]:
            found.setdefault(uid, each)
    return found
