"""The example worker and its queue as real processes, alone and behind a real pool."""

import contextlib
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from autoscaler.workers import pods
from tests.e2e import waiting
from tests.e2e.workers import ground
from tools.local import ports
from tools.local.plane import REPOSITORY, Plane

EXAMPLE = REPOSITORY / "examples" / "worker"
KEY = "change-me"
BRIEF = {pods.IDLE_TIMEOUT: "0.02", "JOB_SECONDS": "0.1"}
"""A pool gives whole minutes; nobody wants to wait for one here."""


class Queue:
    """The example queue."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def ask(self, method: str, path: str) -> str:
        headers = {"Authorization": f"Apikey {KEY}"}
        request = urllib.request.Request(self.url + path, method=method, headers=headers)  # noqa: S310 - our own
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - our own
            text: str = answer.read().decode()
            return text

    def length(self) -> int:
        return int(self.ask("GET", "/length"))

    def is_up(self) -> bool:
        try:
            return self.length() == 0
        except OSError:
            return False


@pytest.fixture
def queue() -> Iterator[Queue]:
    [port] = ports.free(1)
    command = [sys.executable, str(EXAMPLE / "queue_server.py"), f"127.0.0.1:{port}"]
    with subprocess.Popen(command, env={**os.environ, "API_KEY": KEY}, stderr=subprocess.DEVNULL) as process:
        made = Queue(port)
        waiting.eventually(made.is_up)
        yield made
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


@contextlib.contextmanager
def worker(queue: Queue, log: Path, variables: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run the example worker until the block ends."""
    environment = {**os.environ, "QUEUE_URL": queue.url, "API_KEY": KEY, **variables}
    with (
        log.open("wb") as out,
        subprocess.Popen(
            [sys.executable, str(EXAMPLE / "worker.py")], env=environment, stdout=out, stderr=subprocess.STDOUT
        ) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


def test_a_worker_takes_all_jobs_and_ends_well_once_there_are_none(queue: Queue, tmp_path: Path) -> None:
    assert queue.ask("POST", "/add?n=3") == "3"
    log = tmp_path / "log"
    with worker(queue, log, {**BRIEF, pods.POOL: "cloudworkers"}) as process:
        assert process.wait(30) == 0
    assert queue.length() == 0
    want = "a worker of cloudworkers, idle for at most 1.2 s\nworking on job 1\nworking on job 2\nworking on job 3\n"
    assert log.read_text() == want + "no more work\n"


def test_a_worker_that_is_told_to_go_finishes_its_job_and_takes_no_other(queue: Queue, tmp_path: Path) -> None:
    queue.ask("POST", "/add?n=3")
    log = tmp_path / "log"
    with worker(queue, log, {pods.IDLE_TIMEOUT: "5", "JOB_SECONDS": "1"}) as process:
        waiting.eventually(lambda: "job 1" in log.read_text())
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    assert queue.length() == 2
    assert log.read_text().endswith("working on job 1\ntold to go\n")


def test_a_worker_outlives_a_queue_that_does_not_answer(queue: Queue, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with worker(queue, log, {**BRIEF, "QUEUE_URL": "http://127.0.0.1:1"}) as process:
        assert process.wait(30) == 0
    assert "the queue does not answer" in log.read_text()


def test_the_queue_wants_its_key(queue: Queue) -> None:
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(f"{queue.url}/length", timeout=10)  # noqa: S310 - our own


@pytest.mark.accept("W21")
@pytest.mark.accept("W15", part="a worker finds in its variables for how long it may be idle")
def test_jobs_become_workers_that_take_them_and_leave(site: ground.Ground, queue: Queue, tmp_path: Path) -> None:
    """The test is the kubelet: for each pod it runs the example with the pod's own variables, and reports its end."""
    site.make_secret("example-queue", ApiKey=KEY)
    secret = {"queue__source__secretName": "example-queue"}
    site.make_pool("example", f"{queue.url}/length", poolCapacity=3, **secret)
    site.wait_for_status("example", queueSize=0)
    queue.ask("POST", "/add?n=3")
    workers = site.wait_for_workers("example", 3)
    with contextlib.ExitStack() as stack:
        processes = {}
        for pod in workers:
            variables = {one["name"]: one["value"] for one in pod["spec"]["containers"][0]["env"]}
            assert variables == {pods.IDLE_TIMEOUT: "3", pods.POOL: "example"}
            log = tmp_path / ground.name_of(pod)
            processes[log] = stack.enter_context(worker(queue, log, {**variables, **BRIEF}))
        for pod, process in zip(workers, processes.values(), strict=True):
            assert process.wait(60) == 0
            site.end(pod, "Succeeded")
    told = "".join(log.read_text() for log in processes)
    assert sorted(line for line in told.splitlines() if "job" in line) == [f"working on job {n}" for n in (1, 2, 3)]
    site.wait_for_workers("example", 0)
    site.wait_for_status("example", queueSize=0, workers=0, currentCapacity=3)


def test_its_manifests_are_accepted(served: Plane) -> None:
    text = (EXAMPLE / "worker-pool.yaml").read_text(encoding="utf-8")
    said = served.kubectl("apply", "--dry-run=server", "-f", "-", stdin=text)
    assert said.count("created (server dry run)") == len(said.splitlines()) == 5
