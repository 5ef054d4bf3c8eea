"""The plane itself: identities, single components, crashes of its owner, and the commands as a user types them."""

import dataclasses
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e import waiting
from tools import cache
from tools.local import api, kubeconfig, leftovers, ports, process, tokens
from tools.local.components import Component, Options
from tools.local.plane import REPOSITORY, Plane, PlaneError

STORE = frozenset({Component.ETCD, Component.API_SERVER})  # the least that holds objects, and quick to start
START_AND_WAIT = """
import sys
from pathlib import Path
from tools.local.components import Component, Options
from tools.local.plane import Plane
plane = Plane.start(Path(sys.argv[1]), Options(components=frozenset({Component.ETCD, Component.API_SERVER})))
print("ready", flush=True)
sys.stdin.read()
"""


def test_a_minted_token_is_its_service_account_and_bound_by_rbac(plane: Plane, namespace: str, tmp_path: Path) -> None:
    plane.kubectl("-n", namespace, "create", "serviceaccount", "reader")
    plane.kubectl("-n", namespace, "create", "role", "reads-pods", "--verb=list", "--resource=pods")
    plane.kubectl(
        "-n", namespace, "create", "rolebinding", "reads", "--role=reads-pods", f"--serviceaccount={namespace}:reader"
    )
    path = tmp_path / "reader.kubeconfig"
    tokens.write_kubeconfig(plane.api, path, namespace=namespace, service_account="reader")

    with api.Api(kubeconfig.read(path)) as reader:
        identity = reader.create("/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
        assert identity["status"]["userInfo"]["username"] == f"system:serviceaccount:{namespace}:reader"
        pods = f"/api/v1/namespaces/{namespace}/pods"
        waiting.eventually(lambda: reader.request("GET", pods).ok)
        assert reader.request("GET", f"/api/v1/namespaces/{namespace}/secrets").status == 403
        assert reader.request("POST", pods, {"metadata": {"name": "no"}}).status == 403
        assert reader.request("GET", "/api/v1/namespaces/default/pods").status == 403


def test_a_write_after_a_long_silence_does_not_trust_the_old_connection(plane: Plane, namespace: str) -> None:
    with api.Api(plane.api.access) as client:
        client.get("/readyz")
        client._connection.sock.shutdown(socket.SHUT_RDWR)  # as the API server does to a connection nobody uses
        client._used_at -= api.IDLE_SECONDS + 1
        client.create(f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"name": "late"}})


def test_state_survives_a_stop_of_the_api_server_alone(start_plane: Callable[[Options], Plane]) -> None:
    plane = start_plane(Options(components=STORE))
    path = "/api/v1/namespaces/default/configmaps"
    plane.api.create(path, {"metadata": {"name": "kept"}, "data": {"key": "value"}})
    port = plane.blueprint.ports.api_server

    plane.stop_component(Component.API_SERVER)
    with pytest.raises(api.ApiError, match="got no answer"):
        plane.api.request("GET", f"{path}/kept")
    plane.start_component(Component.API_SERVER)

    assert plane.api.get(f"{path}/kept")["data"] == {"key": "value"}
    assert plane.blueprint.ports.api_server == port
    assert plane.is_complete()


def test_a_frozen_component_goes_on_where_it_was(plane: Plane, namespace: str) -> None:
    plane.send(Component.CONTROLLER_MANAGER, signal.SIGSTOP)
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    plane.api.delete(f"{accounts}/default")
    plane.send(Component.CONTROLLER_MANAGER, signal.SIGCONT)
    waiting.eventually(lambda: plane.api.request("GET", f"{accounts}/default").ok)


def test_kubectl_says_what_went_wrong(plane: Plane) -> None:
    assert "default" in plane.kubectl("get", "namespaces", "--output=name")
    with pytest.raises(PlaneError, match=r"kubectl get pod absent.*NotFound"):
        plane.kubectl("get", "pod", "absent")


def test_two_planes_coexist_and_one_writes_an_audit_log_because_it_was_asked_to(
    plane: Plane, start_plane: Callable[[Options], Plane]
) -> None:
    other = start_plane(Options(components=STORE, audit=True))
    other.api.create("/api/v1/namespaces", {"metadata": {"name": "only-there"}})
    assert plane.api.request("GET", "/api/v1/namespaces/only-there").status == 404

    events = [json.loads(line) for line in other.paths.audit_log.read_text().splitlines()]
    writes = [event for event in events if event.get("objectRef", {}).get("name") == "only-there"]
    assert [(event["verb"], event["user"]["username"]) for event in writes] == [("create", "admin")]
    assert writes[0]["requestObject"]["metadata"]["name"] == "only-there"
    assert not plane.paths.audit_log.exists()


def test_a_component_that_cannot_start_is_named_with_its_log(start_plane: Callable[[Options], Plane]) -> None:
    with pytest.raises(PlaneError, match=r"(?s)kube-scheduler ended with 1; the end of .*log:.*kube-api-qps"):
        start_plane(Options(components=STORE | {Component.SCHEDULER}, scheduler_qps="many"))  # type: ignore[arg-type]


def test_a_port_taken_by_somebody_else_meanwhile_is_answered_with_new_ports(
    start_plane: Callable[[Options], Plane], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as somebody:
        good = ports.choose()
        choices = [dataclasses.replace(good, etcd=somebody.getsockname()[1]), good]
        monkeypatch.setattr(ports, "choose", lambda: choices.pop(0))
        assert start_plane(Options(components=STORE)).blueprint.ports == good


def test_what_a_killed_owner_leaves_is_cleaned_up_by_the_next_start(
    tmp_path: Path, start_plane: Callable[[Options], Plane]
) -> None:
    root = tmp_path / "abandoned"
    _start_and_kill_owner(root)
    [entry] = leftovers.of_directory(root, os.environ)
    orphans = entry.running()
    assert orphans.keys() == STORE

    survivor = start_plane(Options(components=STORE))

    assert [name for name, orphan in orphans.items() if process.is_alive(orphan)] == []
    assert leftovers.of_directory(root, os.environ) == []
    assert not (root / "data").exists()
    assert survivor.is_complete()


def test_up_does_not_adopt_a_plane_whose_owner_was_killed(tmp_path: Path) -> None:
    # It would look whole, and then be cleaned up under its user's hands by whoever starts a plane next.
    root = tmp_path / ".local"
    _start_and_kill_owner(root)
    try:
        assert "ready after" in _local("up", "--directory", root)
        assert leftovers.clean(os.environ) == []
        assert Plane.attach(root).is_complete()
    finally:
        _local("down", "--directory", root)


@pytest.mark.parametrize("missing", ["tools", "certificates"])
def test_down_needs_neither_tools_nor_certificates(
    missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, own_cache = tmp_path / ".local", tmp_path / "cache"
    own_cache.mkdir()
    (own_cache / "tools").symlink_to(cache.directory(os.environ) / "tools")
    monkeypatch.setenv("SLUICE_CACHE", str(own_cache))
    _start_and_kill_owner(root)
    [entry] = leftovers.of_directory(root, os.environ)
    leftovers.detach(entry)
    try:
        if missing == "tools":
            (own_cache / "tools").unlink()
        else:
            shutil.rmtree(root / "pki")
        assert "stopped" in _local("down", "--directory", root)
        assert entry.running() == {}
    finally:
        leftovers.release(entry)


def test_up_status_down_as_a_user_types_them(tmp_path: Path) -> None:
    root = tmp_path / ".local"
    try:
        first = _local("up", "--directory", root)
        assert "ready after" in first
        assert f"source {root / 'env'}" in first
        assert "already running" in _local("up", "--directory", root)
        status = _local("status", "--directory", root)
        assert [line.split()[:2] for line in status.splitlines()] == [[name, "pid"] for name in Component]

        seen = subprocess.run(
            ["/bin/sh", "-c", '. "$0" && kubectl get namespace default -o name && echo $AWS_REGION', root / "env"],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        assert seen.stdout.split() == ["namespace/default", "eu-west-1"]
        token = _local("token", "default", "--directory", root)
        assert token.count(".") == 2

        Plane.attach(root).send(Component.SCHEDULER, signal.SIGKILL)
        waiting.eventually(lambda: "not running" in _local("status", "--directory", root, code=1))
        assert "ready after" in _local("up", "--directory", root)
    finally:
        assert "stopped" in _local("down", "--directory", root)
    assert "nothing runs" in _local("down", "--directory", root)
    assert not (root / "kubeconfig").exists()
    assert leftovers.of_directory(root, os.environ) == []


def test_an_up_killed_half_way_leaves_nothing_that_down_does_not_find(tmp_path: Path) -> None:
    root = tmp_path / ".local"
    command = [sys.executable, "-m", "tools.local", "up", "--directory", str(root)]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.DEVNULL) as half_way:
        [entry] = waiting.eventually(lambda: leftovers.of_directory(root, os.environ))
        waiting.eventually(entry.running)
        half_way.kill()
    left = entry.running()
    assert left
    _local("down", "--directory", root)
    assert [name for name, orphan in left.items() if process.is_alive(orphan)] == []
    assert leftovers.of_directory(root, os.environ) == []


def _start_and_kill_owner(root: Path) -> None:
    """Start a small plane from a process of its own and kill that one, so that the plane is nobody's."""
    command = [sys.executable, "-c", START_AND_WAIT, str(root)]
    with subprocess.Popen(command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "ready\n"
        owner.kill()


def _local(*arguments: str | Path, code: int = 0) -> str:
    answer = subprocess.run(
        [sys.executable, "-m", "tools.local", *arguments],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert answer.returncode == code, answer.stdout + answer.stderr
    return answer.stdout
