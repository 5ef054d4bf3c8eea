"""Queues of all kinds, from the server to the pods, and the Secrets they are asked with."""

import contextlib
import os
import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e import replicas, waiting
from tests.e2e.queues import servers
from tests.e2e.workers import ground, queue_servers
from tools import debian
from tools.local import ports

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

SCRAPING = """
global: {{scrape_interval: 100ms, scrape_timeout: 100ms}}
scrape_configs:
  - job_name: queue
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""


@pytest.mark.accept("W7")
def test_the_key_is_sent_and_a_new_one_is_used_without_delay(
    site: ground.Ground, queues: queue_servers.Queues, operator: replicas.Replica
) -> None:
    site.make_secret("key", ApiKey="first-key")
    endpoint = queues.answer("keyed", servers.demanding("Apikey first-key", b"1"))
    site.make_pool("keyed", endpoint, queue__source__secretName="key")
    site.wait_for_workers("keyed", 1)
    assert {headers["Authorization"] for headers in queues.asked("keyed")} == {"Apikey first-key"}

    queues.answer("keyed", servers.demanding("Apikey second-key", b"2"))
    path = f"/api/v1/namespaces/{site.namespace}/secrets/key"
    site.plane.api.merge(path, {"stringData": {"ApiKey": "second-key"}})
    site.wait_for_workers("keyed", 2)
    waiting.eventually(lambda: site.condition("keyed", "Ready").get("status") == "True")
    assert queues.asked("keyed")[-1]["Authorization"] == "Apikey second-key"
    written = operator.log.read_text() + str(site.events("keyed")) + str(site.pool("keyed"))
    assert "first-key" not in written
    assert "second-key" not in written


@pytest.mark.accept("W7")
def test_the_key_may_go_into_another_header(site: ground.Ground, queues: queue_servers.Queues) -> None:
    site.make_secret("key", ApiKey="token")
    changes = {"queue__source__header": "X-Key", "queue__source__headerFormat": "Token {key}"}
    site.make_pool("other", queues.fill("other", 1), queue__source__secretName="key", **changes)
    site.wait_for_workers("other", 1)
    asked = queues.asked("other")[0]
    assert asked["X-Key"] == "Token token"
    assert "Authorization" not in asked


@pytest.mark.accept("W7")
def test_a_missing_secret_is_told_and_works_once_it_is_there(site: ground.Ground, queues: queue_servers.Queues) -> None:
    site.make_pool("early", queues.fill("early", 1), queue__source__secretName="late")
    event = site.wait_for_event("early", "FailedToReconcile", "late")
    want = f"Secret late in namespace {site.namespace} is not there: create it with key ApiKey"
    assert want in event["message"]
    assert event["type"] == "Warning"
    waiting.eventually(lambda: site.condition("early", "Ready").get("status") == "False")
    condition = site.condition("early", "Ready")
    assert condition["reason"] == "MissingSecret"
    assert want in condition["message"]
    assert "queueSize" not in site.status("early"), "nobody knows"
    assert not queues.asked("early")
    assert not site.workers("early")
    site.make_secret("late", ApiKey="x")
    site.wait_for_workers("early", 1)
    waiting.eventually(lambda: site.condition("early", "Ready")["status"] == "True")


@pytest.mark.accept("W7")
def test_a_secret_without_the_key_is_told_too(site: ground.Ground, queues: queue_servers.Queues) -> None:
    site.make_secret("empty", Other="x")
    site.make_pool("empty", queues.fill("empty", 1), queue__source__secretName="empty")
    event = site.wait_for_event("empty", "FailedToReconcile")
    assert "ApiKey" in event["message"]
    assert not queues.asked("empty")


def test_a_queue_that_fails_keeps_the_last_status_and_creates_nothing(
    site: ground.Ground, queues: queue_servers.Queues
) -> None:
    site.make_pool("fails", queues.fill("fails", 2))
    site.wait_for_workers("fails", 2)
    site.wait_for_status("fails", queueSize=2)
    queues.answer("fails", servers.page(b"", 500))
    waiting.eventually(lambda: site.condition("fails", "Ready")["status"] == "False")
    assert site.status("fails")["queueSize"] == 2
    assert len(site.workers("fails")) == 2
    queues.fill("fails", 3)
    site.wait_for_workers("fails", 3)


@pytest.mark.accept("W21")
def test_messages_in_sqs_become_workers(site: ground.Ground, amazon: "SQSClient") -> None:
    url = amazon.create_queue(QueueName=f"jobs-{secrets.token_hex(4)}")["QueueUrl"]
    site.make_secret("keys", AccessKeyId="testing", ApiKey="testing")
    site.make_pool("amazon", url, queue__source__type="sqs", queue__source__secretName="keys")
    site.wait_for_status("amazon", queueSize=0)
    for number in range(3):
        amazon.send_message(QueueUrl=url, MessageBody=str(number))
    site.wait_for_workers("amazon", 3)
    site.wait_for_status("amazon", queueSize=3, queueEndpoint=url)


@pytest.fixture
def prometheus(queues: queue_servers.Queues, tmp_path: Path) -> Iterator[str]:
    """Debian's Prometheus, which scrapes the path /metrics of our queues."""
    [number] = ports.free(1)
    config = tmp_path / "prometheus.yml"
    config.write_text(SCRAPING.format(port=queues.server.port))
    command = [
        str(debian.program(debian.PROMETHEUS, os.environ, print)),
        f"--config.file={config}",
        f"--storage.tsdb.path={tmp_path / 'data'}",
        f"--web.listen-address=127.0.0.1:{number}",
    ]
    with contextlib.ExitStack() as stack:
        log = stack.enter_context((tmp_path / "log").open("wb"))
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        stack.callback(process.wait, 20)
        stack.callback(process.terminate)
        yield f"http://127.0.0.1:{number}"


@pytest.mark.accept("W21")
def test_a_number_in_prometheus_becomes_workers(
    site: ground.Ground, queues: queue_servers.Queues, prometheus: str
) -> None:
    def jobs(count: int) -> servers.Handler:
        return servers.page(f"jobs_waiting {count}\n".encode(), Content_Type="text/plain; version=0.0.4")

    queues.answer("metrics", jobs(2))
    site.make_pool("measured", prometheus, queue__source__type="prometheus", queue__source__query="sum(jobs_waiting)")
    site.wait_for_workers("measured", 2)
    queues.answer("metrics", jobs(4))
    site.wait_for_workers("measured", 4)
    site.wait_for_status("measured", queueSize=4, queueEndpoint=prometheus)
