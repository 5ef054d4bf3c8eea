"""Why a pod waits: its own state first, then what nodes and every node group say."""

from typing import Any

import pytest

from autoscaler import clock
from autoscaler.api import keys
from autoscaler.api.resources.accounts import ProviderAccount
from autoscaler.api.resources.base import Condition
from autoscaler.api.resources.pools import InstancePool, InstancePoolStatus
from autoscaler.capacity.reporting import explaining
from autoscaler.capacity.scaleup import missed_placements, unhelpful
from autoscaler.capacity.scaleup.storage import needs as storage
from autoscaler.capacity.scaleup.storage import volume_objects
from autoscaler.kube import objects
from tests import builders as manifests
from tests.autoscaler.capacity import seen
from tests.autoscaler.capacity.stored import claim, csi_node, stored, volume


def pool(name: str = "gpu", *groups: dict[str, Any], active: int = 0, **spec: Any) -> InstancePool:
    manifest = manifests.resource("InstancePool", name=name, **spec)
    return InstancePool.model_validate({**manifest, "status": {"nodeGroups": list(groups), "activeInstances": active}})


def group(zone: str = "a", **changes: Any) -> dict[str, Any]:
    return {
        "name": f"asg-{zone}",
        "zone": zone,
        "instanceType": "m5.xlarge",
        "maximum": 3,
        "allocatable": {"cpu": "3920m", "memory": "15Gi", "pods": "58"},
        **changes,
    }


def explained(
    pod: objects.Pod, *pools: InstancePool, nodes: tuple[objects.Node, ...] = (), **more: Any
) -> explaining.Explanation:
    return explaining.explain(
        explaining.Evidence(
            now=seen.NOW,
            pod=pod,
            pods=more.pop("pods", {}),
            nodes={node.meta.key: node for node in nodes},
            namespaces={},
            pools=pools,
            scopes=(),
            **more,
        )
    )


@pytest.mark.parametrize(
    ("what", "want"),
    [
        ({"node": "n"}, "it is on node n"),
        ({"schedulingGates": [{"name": "sluice.dev/admission"}]}, "behind its scheduling gates: sluice.dev/admission"),
        ({"schedulerName": "volcano"}, "left to its scheduler volcano"),
        ({"priority": -50}, "its priority -50 is below -10"),
        ({"owner": "DaemonSet"}, "DaemonSet"),
        ({"metadata": {"deletionTimestamp": seen.STAMP}}, "being deleted"),
        ({"status": {"nominatedNodeName": "n"}}, "node n is being cleared"),
    ],
)
def test_a_pod_that_no_instance_would_help_says_why(what: dict[str, Any], want: str) -> None:
    assert want in explained(seen.pod(**what), pool("gpu", group())).summary


def test_groups_of_other_zones_than_a_pods_volume_do_not_take_it() -> None:
    claimed = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    there = stored(claim("data", "pv"), volume({keys.ZONE: ["b"]}))
    result = explained(seen.pod(volumes=claimed), pool("gpu", group("a"), group("b")), storage=there)
    assert [verdict.says for verdict in result.verdicts] == ["the pod's volume is in zone b", "would take it"]


def test_every_group_says_something() -> None:
    result = explained(
        seen.pod(cpu="3"),
        pool("gpu", group("a"), group("b", desired=3), group("c", reason="InsufficientCapacity: none left")),
        pool("small", group("a", allocatable={"cpu": "1930m", "memory": "7Gi", "pods": "29"})),
    )
    assert [(verdict.key.pool, verdict.key.zone, verdict.says) for verdict in result.verdicts] == [
        ("gpu", "a", "would take it"),
        ("gpu", "b", "the group has 3 of at most 3"),
        ("gpu", "c", "InsufficientCapacity: none left"),
        ("small", "a", "cpu: wants 3, has 1.93"),
    ]
    assert result.summary == "no node has room for it; 1 of 4 node groups would take it"


@pytest.mark.parametrize(("reason", "fits"), [("BudgetSpent", False), ("BudgetNearlyUsed", True)])
def test_a_budget_that_is_used_up_is_named(reason: str, fits: bool) -> None:  # noqa: FBT001
    said = {"type": "WithinBudget", "status": "False", "reason": reason, "message": "the pool may use 10 s"}
    spent = pool("gpu", group())
    status = spent.status.model_copy(
        update={"conditions": (Condition.model_validate({**said, "lastTransitionTime": seen.STAMP}),)}
    )
    (verdict,) = explained(seen.pod(), spent.model_copy(update={"status": status})).verdicts
    assert verdict.fits is fits
    assert fits or verdict.says == "the pool may use 10 s"


def test_a_limit_of_the_pool_is_named() -> None:
    (verdict,) = explained(seen.pod(), pool("gpu", group(), active=2, limits__maxActiveInstances=2)).verdicts
    assert verdict.says == "the pool has 2 of at most 2 instances"


def test_nodes_with_room_are_named() -> None:
    result = explained(seen.pod(), nodes=(seen.node(), seen.node("full", unschedulable=True)))
    assert result.room == ("node",)


def test_the_taint_of_an_ephemeral_group_is_no_reason_against_it() -> None:
    taint = {"key": keys.RESERVED_FOR, "value": keys.RESERVED_FOR_NONE, "effect": "NoSchedule"}
    (verdict,) = explained(seen.pod(), pool("once", group(taints=[taint]), ephemeral=True)).verdicts
    assert verdict.says == "would take it"


def test_an_instance_for_one_pod_is_room_while_it_is_free_and_for_whom_it_is_kept() -> None:
    def kept(name: str, value: str) -> objects.Node:
        return seen.node(name, taints=[{"key": keys.RESERVED_FOR, "value": value, "effect": "NoSchedule"}])

    own = [{"key": keys.RESERVED_FOR, "operator": "Equal", "value": "pod", "effect": "NoSchedule"}]
    nodes = (kept("free", keys.RESERVED_FOR_NONE), kept("mine", "pod"), kept("theirs", "other"))
    assert explained(seen.pod(tolerations=own), nodes=nodes).room == ("free", "mine")
    assert explained(seen.pod(), nodes=nodes).room == ("free",)


def test_a_pod_that_waits_for_a_zone_says_so_and_every_group_says_something() -> None:
    gated = seen.pod(waits=False, schedulingGates=[{"name": "sluice.dev/placement"}])
    got = explained(gated, pool("gpu", group("a"), group("b", maximum=0)))
    assert "until one zone has room on ready nodes for all pods of its owner" in got.summary
    assert "taken by 1 of 2 node groups" in got.summary
    assert [verdict.fits for verdict in got.verdicts] == [True, False]
    there = explained(gated, pool("gpu", group()), nodes=(seen.node(),))
    assert "find room on 1 nodes" in there.summary


def test_where_a_node_has_room_the_schedulers_own_words_are_told() -> None:
    """No instance helps a pod that waits for something else, such as a claim that nobody binds."""
    said = "pod has unbound immediate PersistentVolumeClaims"
    result = explained(seen.pod(), pool("gpu", group()), nodes=(seen.node("one"),), scheduler_said=said)
    assert result.summary == f"1 node has room for its requests, so no instance would help; the scheduler says: {said}"


def test_groups_of_an_account_that_does_not_answer_say_since_when() -> None:
    silent = {
        "type": "Ready",
        "status": "False",
        "reason": "NotUsable",
        "message": "no answer to a call about asg-a yet",
    }
    account = ProviderAccount.model_validate(
        {
            **manifests.resource("ProviderAccount", name="aws"),
            "status": {"conditions": [{**silent, "lastTransitionTime": "2026-06-30T06:00:00Z"}]},
        }
    )
    result = explained(seen.pod(), pool("gpu", group(), providerAccount="aws"), accounts=(account,))
    assert result.summary == "no node has room for it, and none of 1 node groups takes it"
    (verdict,) = result.verdicts
    assert verdict.says.startswith("account aws has not answered since 2026-06-30")


def unhelped(pod: objects.Pod, *, minutes_ago: int = 20, there: storage.Storage | None = None) -> InstancePool:
    """A pool whose status says that a launch for such a pod did not help."""
    like = missed_placements.Waiting(pod.shape, pod.meta.key.namespace)
    claims = storage.state(there, pod.shape, pod.meta.key.namespace) if there is not None else ()
    at = clock.to_rfc3339(seen.NOW - minutes_ago * 60)
    launch = {"shape": unhelpful.digest(like, claims), "nodeGroup": "asg-b", "at": at}
    found = pool("gpu", group())
    status = InstancePoolStatus.model_validate(
        {**found.status.model_dump(by_alias=True, mode="json"), "unhelpfulLaunches": [launch]}
    )
    return found.model_copy(update={"status": status})


def test_a_launch_that_did_not_help_is_named_with_when_the_next_one_may_be() -> None:
    pod = seen.pod()
    result = explained(pod, unhelped(pod), pool("cpu", group("c")))
    (note,) = result.notes
    assert note == (
        "an instance of asg-b was started for such a pod, and its empty node had room and did not take it 20 min ago, "
        "so that none is started for 40 min more: see what the scheduler says of the pod, and which controller of the "
        "node keeps pods off"
    )
    want = "an empty node of asg-b did not take such a pod although it had room"
    assert [verdict.says for verdict in result.verdicts] == [want, want]


def test_one_that_did_not_help_other_pods_or_long_ago_says_nothing() -> None:
    pod = seen.pod()
    for there in (unhelped(seen.pod(cpu="2")), unhelped(pod, minutes_ago=60)):
        result = explained(pod, there)
        assert (result.notes, [verdict.fits for verdict in result.verdicts]) == ((), [True])


def test_pods_are_alike_as_the_runtime_sorts_them_by_labels_that_rules_read() -> None:
    pod = seen.pod(metadata={"labels": {"app": "web", "hash": "x"}})
    near = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": keys.HOSTNAME}
    other = seen.pod("other", affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]}})
    found = unhelped(pod)
    like = missed_placements.Waiting(pod.shape, pod.meta.key.namespace, (("app", "web"),))
    (launch,) = found.status.unhelpful_launches
    said = launch.model_copy(update={"shape": unhelpful.digest(like)})
    found = found.model_copy(update={"status": found.status.model_copy(update={"unhelpful_launches": (said,)})})
    result = explained(pod, found, pods={other.meta.key: other})
    assert len(result.notes) == 1


VOLUMES = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in ("one", "two")]
EBS_VOLUMES = (
    claim("one", "pv-1"),
    claim("two", "pv-2"),
    volume(name="pv-1", csi={"driver": volume_objects.EBS, "volumeHandle": "1"}),
    volume(name="pv-2", csi={"driver": volume_objects.EBS, "volumeHandle": "2"}),
)


def test_a_node_that_attaches_no_more_volumes_is_no_room_and_is_named() -> None:
    there = stored(
        *EBS_VOLUMES, csi_node("full", **{volume_objects.EBS: 1}), csi_node("free", **{volume_objects.EBS: 2})
    )
    nodes = (seen.node("full"), seen.node("free", instance="i-2"))
    result = explained(seen.pod(volumes=VOLUMES), pool("gpu", group()), nodes=nodes, storage=there)
    assert result.room == ("free",)
    assert result.notes == (
        "1 node has room for its requests and attaches too few volumes more for it: full (wants 2 of ebs.csi.aws.com)",
    )


def test_a_group_whose_nodes_attach_too_few_volumes_says_so_in_plain_words() -> None:
    kind = {keys.INSTANCE_TYPE: "m5.xlarge"}
    there = stored(*EBS_VOLUMES, csi_node("one", **{volume_objects.EBS: 1}))
    taken = seen.node("one", labels=kind, unschedulable=True)
    result = explained(seen.pod(volumes=VOLUMES), pool("gpu", group(labels=kind)), nodes=(taken,), storage=there)
    assert [verdict.says for verdict in result.verdicts] == ["volumes of ebs.csi.aws.com on one node: wants 2, has 1"]
