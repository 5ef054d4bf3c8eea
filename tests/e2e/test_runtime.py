"""The runtime's engine on a real API server, and what is done to it: kills, freezes, restarts, cuts, lost history."""

import signal
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from autoscaler.api import crds, keys, manifests, version
from tests import builders
from tests.e2e import replicas, waiting, wires
from tests.e2e.replica import LEASE
from tools.local.components import Component, Options
from tools.local.plane import Plane

STORE = frozenset({Component.ETCD, Component.API_SERVER})
NAMESPACE = "runtime"
MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """A plane of etcd and API server alone, which these tests may stop and start as they like."""
    with Plane.start(tmp_path_factory.mktemp("store"), Options(components=STORE)) as plane:
        plane.api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        yield plane


@pytest.fixture
def clean(store: Plane) -> Iterator[Plane]:
    """That plane without any object of an earlier test."""
    yield store
    store.api.delete(MAPS)
    store.api.delete(f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{LEASE}")


@pytest.fixture
def start(clean: Plane, tmp_path: Path) -> Iterator[Callable[..., replicas.Replica]]:
    """Start replicas that end with the test."""
    with replicas.copy_of(clean, tmp_path) as kubeconfig:
        started: list[replicas.Replica] = []

        def begin(identity: str, *flags: str, config: Path = kubeconfig) -> replicas.Replica:
            started.append(replicas.Replica(config, NAMESPACE, identity, *flags))
            return started[-1]

        yield begin
        for replica in started:
            replica.__exit__(None, None, None)


def beats(plane: Plane, identity: str) -> set[str]:
    return replicas.beats(plane, NAMESPACE, identity)


def holder(plane: Plane) -> str:
    lease = plane.api.get(f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{LEASE}")
    identity: str = lease["spec"].get("holderIdentity") or ""
    return identity.partition("_")[0]


def source(plane: Plane, name: str) -> None:
    plane.api.create(MAPS, {"metadata": {"name": name, "labels": {"role": "source"}}})


def copies(plane: Plane) -> set[str]:
    listed = plane.api.get(MAPS, {"labelSelector": "role=copy"})
    return {item["metadata"]["name"] for item in listed["items"]}


@pytest.mark.accept("R2")
def test_one_of_two_replicas_acts_and_a_frozen_leader_does_nothing_when_it_wakes(
    clean: Plane, start: Callable[..., replicas.Replica]
) -> None:
    first = replicas.ready(start("first", "--controllers", "beats"))
    waiting.eventually(lambda: beats(clean, "first"))
    second = replicas.ready(start("second", "--controllers", "beats"))
    seen = len(beats(clean, "first"))
    waiting.eventually(lambda: len(beats(clean, "first")) > seen + 5)
    assert not beats(clean, "second")

    first.send(signal.SIGSTOP)
    frozen = beats(clean, "first")
    waiting.eventually(lambda: beats(clean, "second"), within_seconds=4 * replicas.LEASE_SECONDS)
    first.send(signal.SIGCONT)
    seen = len(beats(clean, "second"))
    waiting.eventually(lambda: len(beats(clean, "second")) > seen + 20)
    # What was on its way to the server when it froze may still have arrived: one call, not more.
    assert len(beats(clean, "first") - frozen) <= 1
    assert holder(clean) == "second"
    assert first.process.poll() is None
    assert second.get("/healthz") == (200, "ok\n")


@pytest.mark.accept("R2")
def test_the_standby_acts_when_the_leader_is_killed(clean: Plane, start: Callable[..., replicas.Replica]) -> None:
    first = replicas.ready(start("first", "--controllers", "beats"))
    waiting.eventually(lambda: beats(clean, "first"))
    replicas.ready(start("second", "--controllers", "beats"))
    first.send(signal.SIGKILL)
    waiting.eventually(lambda: beats(clean, "second"), within_seconds=4 * replicas.LEASE_SECONDS)
    assert holder(clean) == "second"


@pytest.mark.accept("R8")
def test_a_terminated_replica_gives_its_lease_back_and_ends_well(
    clean: Plane, start: Callable[..., replicas.Replica]
) -> None:
    first = replicas.ready(start("first"))
    waiting.eventually(lambda: beats(clean, "first"))
    first.send(signal.SIGTERM)
    assert first.wait() == 0
    assert holder(clean) == ""
    assert [entry["event"] for entry in first.entries("stopped")] == ["stopped"]
    assert not first.entries("cycle_failed")


@pytest.mark.accept("R9")
def test_the_pause_annotation_stops_everything_until_it_is_gone(
    clean: Plane, start: Callable[..., replicas.Replica]
) -> None:
    replicas.ready(start("only", "--controllers", "beats"))
    waiting.eventually(lambda: beats(clean, "only"))
    own = f"/api/v1/namespaces/{NAMESPACE}"
    clean.api.merge(own, {"metadata": {"annotations": {keys.PAUSED: "true"}}})
    try:
        waiting.eventually(lambda: _is_still(clean))
        assert holder(clean) == "only"  # paused, but ready to go on
    finally:
        clean.api.merge(own, {"metadata": {"annotations": {keys.PAUSED: None}}})
    seen = beats(clean, "only")
    waiting.eventually(lambda: beats(clean, "only") - seen)


def _is_still(plane: Plane) -> bool:
    before = beats(plane, "only")
    time.sleep(1.0)  # ten beats' time
    return beats(plane, "only") == before


@pytest.mark.accept("R9")
def test_observe_mode_plans_and_writes_nothing_but_its_lease(
    clean: Plane, start: Callable[..., replicas.Replica]
) -> None:
    source(clean, "a")
    watcher = replicas.ready(start("watcher", "--observe"))
    waiting.eventually(lambda: watcher.entries("would_write"))
    assert {entry["method"] for entry in watcher.entries("would_write")} == {"POST"}
    assert copies(clean) == set()
    assert replicas.beats(clean, NAMESPACE) == set()


@pytest.mark.accept("R3")
def test_an_api_server_restart_under_load_loses_nothing(clean: Plane, start: Callable[..., replicas.Replica]) -> None:
    replica = replicas.ready(start("only"))
    source(clean, "before")
    waiting.eventually(lambda: copies(clean) == {"before-copy"})
    clean.restart(Component.API_SERVER)
    for number in range(20):
        source(clean, f"after-{number}")
    want = {"before-copy", *(f"after-{number}-copy" for number in range(20))}
    waiting.eventually(lambda: copies(clean) == want)
    assert replica.process.poll() is None
    waiting.eventually(replica.is_ready)


@pytest.mark.accept("R3")
def test_etcd_being_away_for_over_a_minute_is_survived_and_nothing_is_lost(
    clean: Plane, start: Callable[..., replicas.Replica]
) -> None:
    """It is away until the replica itself says that what it knows is too old, which takes it a minute.

    The API server first keeps its watches open and says nothing; then it goes too, as its kubelet would restart it.
    """
    replica = replicas.ready(start("only", "--controllers", "copies"))
    for name in ("kept", "dropped"):
        source(clean, name)
    waiting.eventually(lambda: copies(clean) == {"kept-copy", "dropped-copy"})
    clean.stop_component(Component.ETCD)
    try:
        waiting.eventually(lambda: replica.entries("not_leading"))
        assert not _missing(replica)
        clean.stop_component(Component.API_SERVER)
        waiting.eventually(lambda: "ConfigMap: Failing" in _missing(replica), within_seconds=90)
        assert replica.get("/healthz") == (200, "ok\n")
    finally:
        clean.start_component(Component.ETCD)
        clean.start_component(Component.API_SERVER)
    clean.api.delete(f"{MAPS}/dropped")
    source(clean, "new")
    waiting.eventually(lambda: copies(clean) == {"kept-copy", "new-copy"}, within_seconds=60)
    waiting.eventually(replica.is_ready)
    assert replica.process.poll() is None
    assert len(replica.entries("leading")) == 2  # the Lease was lost meanwhile, and taken up again


def _missing(replica: replicas.Replica) -> str:
    status, text = replica.get("/readyz")
    return text if status != 200 else ""


@pytest.mark.accept("R3")
def test_lost_history_is_made_good_by_a_new_list_with_deletions_noticed(
    clean: Plane, start: Callable[..., replicas.Replica]
) -> None:
    replica = replicas.ready(start("only", "--controllers", "copies"))
    source(clean, "kept")
    source(clean, "dropped")
    waiting.eventually(lambda: copies(clean) == {"kept-copy", "dropped-copy"})
    replica.send(signal.SIGSTOP)
    clean.restart(Component.API_SERVER)  # cuts its watch: what follows does not wait in the wire
    clean.api.delete(f"{MAPS}/dropped")
    source(clean, "new")
    _compact(clean)
    clean.restart(Component.API_SERVER)  # it forgets the events it had cached, and may not ask etcd for them
    replica.send(signal.SIGCONT)
    waiting.eventually(lambda: copies(clean) == {"kept-copy", "new-copy"})
    waiting.eventually(lambda: replica.entries("watch_expired"))


def _compact(plane: Plane) -> None:
    version = plane.api.get(MAPS)["metadata"]["resourceVersion"]
    body = msgspec.json.encode({"revision": version, "physical": True})
    url = f"http://127.0.0.1:{plane.blueprint.ports.etcd}/v3/kv/compaction"
    with urllib.request.urlopen(urllib.request.Request(url, data=body), timeout=10) as answer:
        assert answer.status == 200


@pytest.mark.accept("R3")
def test_cut_watches_and_slow_answers_are_survived(
    clean: Plane, start: Callable[..., replicas.Replica], tmp_path: Path
) -> None:
    with wires.Relay(clean.blueprint.ports.api_server) as relay:
        config = replicas.through(clean, relay.port, tmp_path)
        replica = replicas.ready(start("only", "--controllers", "copies", config=config))
        for round_ in range(3):
            source(clean, f"cut-{round_}")
            relay.cut()
        waiting.eventually(lambda: len(copies(clean)) == 3)
        relay.delay_seconds = 0.3
        source(clean, "slow")
        waiting.eventually(lambda: len(copies(clean)) == 4)
        assert replica.process.poll() is None


@pytest.mark.accept("R2", "R3")
def test_a_leader_that_is_cut_off_stops_before_another_may_take_over(
    clean: Plane, start: Callable[..., replicas.Replica], tmp_path: Path
) -> None:
    with wires.Relay(clean.blueprint.ports.api_server) as relay:
        config = replicas.through(clean, relay.port, tmp_path)
        replicas.ready(start("far", "--controllers", "beats", config=config))
        waiting.eventually(lambda: beats(clean, "far"))
        near = replicas.ready(start("near", "--controllers", "beats"))
        relay.hold()
        waiting.eventually(lambda: beats(clean, "near"), within_seconds=4 * replicas.LEASE_SECONDS)
        before = beats(clean, "far")
        relay.go_on()
        seen = len(beats(clean, "near"))
        waiting.eventually(lambda: len(beats(clean, "near")) > seen + 20)
        # The one call that was held in the wire, and nothing planned later.
        assert len(beats(clean, "far") - before) <= 1
        assert near.process.poll() is None


@pytest.mark.accept("R5")
def test_an_object_older_than_a_rule_is_told_so_on_the_object(
    clean: Plane, start: Callable[..., replicas.Replica]
) -> None:
    pools = f"/apis/{version.GROUP_VERSION}/namespaces/default/workerpools"
    _install(clean, _without_rules(crds.all_crds()))
    try:
        waiting.eventually(lambda: clean.api.request("GET", pools).ok)
        clean.api.create(pools, builders.resource("WorkerPool", name="old", queue__interval="10s"))
        _install(clean, crds.all_crds())
        replica = replicas.ready(start("only", "--controllers", "pools"))

        def told() -> Any:
            conditions = clean.api.get(f"{pools}/old").get("status", {}).get("conditions", [])
            return next((one for one in conditions if one["type"] == "Readable"), None)

        condition = waiting.eventually(told)
        assert (condition["status"], condition["reason"]) == ("False", "Unreadable")
        assert "must be HH:MM:SS" in condition["message"]
        assert "Unreadable" in clean.kubectl("describe", "wp", "old")
        assert replica.process.poll() is None
    finally:
        clean.api.delete(f"{pools}/old")


def _install(plane: Plane, definitions: Iterable[manifests.Manifest]) -> None:
    plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=manifests.dump(definitions))


def _without_rules(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: _without_rules(value) for key, value in node.items() if key != "x-kubernetes-validations"}
    return [_without_rules(each) for each in node] if isinstance(node, (list, tuple)) else node


@pytest.mark.accept("S7")
def test_old_definitions_are_refused_with_what_to_do(clean: Plane, start: Callable[..., replicas.Replica]) -> None:
    _install(clean, crds.all_crds())
    clean.kubectl("label", "--overwrite", "crd", "scopes.sluice.dev", f"{keys.VERSION}=0.0.1")
    try:
        replica = start("only")
        assert replica.wait() == 1
        (entry,) = replica.entries("cannot_run")
        assert "scopes.sluice.dev is of version 0.0.1" in entry["error"]
        assert "pulumi up" in entry["error"]
    finally:
        _install(clean, crds.all_crds())


def test_metrics_and_health_are_served(clean: Plane, start: Callable[..., replicas.Replica]) -> None:
    replica = replicas.ready(start("only"))
    waiting.eventually(lambda: beats(clean, "only"))
    status, text = replica.get("/metrics")
    assert status == 200
    for name in (
        'sluice_leader{lease="engine-test"} 1.0',
        'sluice_build_info{version="',
        'sluice_reconcile_duration_seconds_count{controller="beats",outcome="done"}',
        'sluice_writes_total{kind="ConfigMap",lease="engine-test",outcome="done",verb="create"}',
        'sluice_watch_restarts_total{kind="ConfigMap"}',
        'sluice_oldest_change_seconds{controller="copies"}',
    ):
        assert name in text, name
