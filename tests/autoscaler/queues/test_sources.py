"""A pool's source becomes the right queue, with its own Secret as it is now."""

import asyncio
import re

import pydantic
import pytest

from autoscaler.api.resources import worker_pools
from autoscaler.queues import http, port, prometheus, sources, sqs, wire
from tests.autoscaler.queues import contract


def shared(fake: contract.FakeWeb, reader: contract.FakeSqs | None = None) -> sources.Sources:
    return sources.Sources(getter=fake, reader=reader or contract.FakeSqs())


@pytest.mark.accept("W21")
def test_each_kind_has_its_queue() -> None:
    made = [
        shared(contract.FakeWeb()).queue(source, namespace="jobs", secret=contract.SECRET)
        for source in (
            contract.source(),
            contract.source("sqs", contract.FAKE_QUEUE),
            contract.source("prometheus", "http://prometheus:9090", query="jobs"),
        )
    ]
    assert [type(queue) for queue in made] == [http.HttpQueue, sqs.SqsQueue, prometheus.PrometheusQueue]


@pytest.mark.accept("W26")
@pytest.mark.parametrize("kind", ["http", "prometheus"])
def test_servers_are_asked_in_the_name_of_the_pools_namespace(kind: str) -> None:
    fake = contract.FakeWeb(page=wire.Page(status=200, body=contract.body_of(kind, 5)))
    more = {"query": "jobs"} if kind == "prometheus" else {}
    queue = shared(fake).queue(contract.source(kind, **more), namespace="tonic", secret=contract.SECRET)
    assert asyncio.run(queue.length()) == 5
    assert fake.namespaces == ["tonic"]


@pytest.mark.accept("W23")
def test_the_seeds_pool_is_asked_with_its_key_in_its_namespace() -> None:
    fake = contract.FakeWeb(page=wire.Page(status=200, body=b"5"))
    source = contract.source(endpoint="https://tonic-web-server/api/job/peek_queue")
    queue = shared(fake).queue(source, namespace="tonic", secret=contract.SECRET)
    assert asyncio.run(queue.length()) == 5
    [(url, headers, authority)] = fake.asked
    assert str(url) == "https://tonic-web-server.tonic.svc/api/job/peek_queue"
    assert headers == {"Authorization": f"Apikey {contract.KEY}"}
    assert authority is None


def test_a_renewed_key_is_used_by_the_next_queue() -> None:
    fake = contract.FakeWeb()
    all_ = shared(fake)
    for key in (b"old", b"new"):
        asyncio.run(all_.queue(contract.source(), namespace="jobs", secret={"ApiKey": key}).length())
    assert [headers["Authorization"] for _, headers, _ in fake.asked] == ["Apikey old", "Apikey new"]


@pytest.mark.parametrize("kind", ["http", "sqs", "prometheus"])
def test_a_secret_without_the_key_is_not_used(kind: str) -> None:
    fake, reader = contract.FakeWeb(), contract.FakeSqs()
    more = {"query": "jobs"} if kind == "prometheus" else {}
    source = contract.source(kind, contract.FAKE_QUEUE, **more)
    queue = shared(fake, reader).queue(source, namespace="jobs", secret={"password": b"x", "AccessKeyId": b"y"})
    message = asyncio.run(contract.check_fails(queue, port.Reason.BAD_SECRET))
    assert "ApiKey" in message
    assert fake.asked == []
    assert reader.asked == []


def test_a_pool_that_names_no_secret_sends_none() -> None:
    fake = contract.FakeWeb()
    source = worker_pools.QueueSource(endpoint="http://a.b/c")
    asyncio.run(shared(fake).queue(source, namespace="jobs", secret=None).length())
    assert fake.asked[0][1] == {}


def test_header_format_and_field_can_be_chosen_and_the_authority_is_handed_on() -> None:
    fake = contract.FakeWeb(page=wire.Page(status=200, body=b'{"queue":{"length":3}}'))
    source = contract.source(header="X-Key", headerFormat="{key}", field="queue.length")
    secret = {**contract.SECRET, "ca.crt": b"pem"}
    queue = shared(fake).queue(source, namespace="jobs", secret=secret)
    assert asyncio.run(queue.length()) == 3
    assert fake.asked[0][1:] == ({"X-Key": contract.KEY}, b"pem")


@pytest.mark.parametrize(
    ("given", "want"),
    [
        ({"header": "X-Key"}, {"X-Key": f"Apikey {contract.KEY}"}),
        ({"headerFormat": "Bearer {key}"}, {"Authorization": f"Bearer {contract.KEY}"}),
    ],
)
def test_what_is_not_chosen_has_its_default(given: dict[str, str], want: dict[str, str]) -> None:
    fake = contract.FakeWeb()
    asyncio.run(shared(fake).queue(contract.source(**given), namespace="jobs", secret=contract.SECRET).length())
    assert fake.asked[0][1] == want


@pytest.mark.parametrize(
    ("given", "want"),
    [
        ({"header": "Host"}, "how a request is sent"),
        ({"header": "X-Key\n"}, "name of an HTTP header"),
        ({"headerFormat": "Bearer"}, "with {key} in it"),
        ({"headerFormat": "{key}\n"}, "one line"),
        ({"field": "a..b"}, "dots between"),
    ],
)
def test_a_source_that_makes_no_sense_is_refused_before_it_reaches_an_api_server(
    given: dict[str, str], want: str
) -> None:
    with pytest.raises(pydantic.ValidationError, match=re.escape(want)):
        contract.source(**given)


def test_the_api_tells_the_defaults_that_are_used() -> None:
    fields = worker_pools.QueueSource.model_fields
    assert f"Default: {http.DEFAULT.header}." in str(fields["header"].description)
    assert f"Default: {http.DEFAULT.header_format}." in str(fields["header_format"].description)


@pytest.mark.parametrize(
    ("status", "want"),
    [
        (204, port.Reason.FAILED),
        (304, port.Reason.FAILED),
        (401, port.Reason.UNAUTHORIZED),
        (403, port.Reason.UNAUTHORIZED),
        (404, port.Reason.NOT_FOUND),
        (429, port.Reason.FAILED),
        (503, port.Reason.FAILED),
    ],
)
def test_only_a_success_is_read(status: int, want: port.Reason) -> None:
    fake = contract.FakeWeb(page=wire.Page(status=status, body=b"5"))
    queue = shared(fake).queue(contract.source(), namespace="jobs", secret=contract.SECRET)
    assert str(status) in asyncio.run(contract.check_fails(queue, want))
