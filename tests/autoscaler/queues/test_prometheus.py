"""A query's single value is the queue's length; no value, several, or another kind of answer is an error."""

import asyncio
import json

import pytest
import yarl
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.queues import counts, port, prometheus, wire
from tests.autoscaler.queues import contract

WHERE = "the query's value"


def answer(kind: str, result: object) -> bytes:
    return json.dumps({"status": "success", "data": {"resultType": kind, "result": result}}).encode()


def series(value: str) -> dict[str, object]:
    return {"metric": {"queue": "a"}, "value": [1700000000.123, value]}


def read(body: bytes) -> int | port.Reason:
    try:
        return prometheus.read(body, where=WHERE)
    except port.QueueError as error:
        return error.reason


@pytest.mark.parametrize(
    ("body", "want"),
    [
        (answer("scalar", [1700000000, "5"]), 5),
        (answer("vector", [series("5")]), 5),
        (answer("vector", [series("1e+06")]), 1_000_000),
        (answer("vector", []), port.Reason.NOT_ONE_VALUE),
        (answer("vector", [series("5"), series("6")]), port.Reason.NOT_ONE_VALUE),
        (answer("vector", [{"metric": {}, "histogram": [1, {}]}]), port.Reason.NOT_ONE_VALUE),
        (answer("matrix", [{"metric": {}, "values": [[1, "5"]]}]), port.Reason.NOT_ONE_VALUE),
        (answer("string", [1, "5"]), port.Reason.NOT_ONE_VALUE),
        (answer("vector", [series("NaN")]), port.Reason.NOT_A_NUMBER),
        (answer("vector", [series("+Inf")]), port.Reason.NOT_A_NUMBER),
        (answer("vector", [series("0.5")]), port.Reason.NOT_A_NUMBER),
        (answer("vector", [series("-1")]), port.Reason.NEGATIVE),
        (answer("scalar", [1, 5]), port.Reason.NOT_A_NUMBER),
        (b"5", port.Reason.NOT_A_NUMBER),
        (b'{"status":"error","error":"x"}', port.Reason.NOT_A_NUMBER),
        (b"", port.Reason.NOT_A_NUMBER),
    ],
)
@pytest.mark.accept("W21")
def test_an_answer_is_read(body: bytes, want: int | port.Reason) -> None:
    assert read(body) == want


@given(st.binary(max_size=200))
def test_any_bytes_give_a_count_or_an_error(body: bytes) -> None:
    got = read(body)
    assert isinstance(got, port.Reason) or 0 <= got <= counts.MAX


@pytest.mark.parametrize(
    ("server", "want"),
    [
        ("http://a.b:9090", "http://a.b:9090/api/v1/query"),
        ("http://a.b:9090/", "http://a.b:9090/api/v1/query"),
        ("http://a.b/prom/", "http://a.b/prom/api/v1/query"),
        ("http://a.b/api/v1/query", "http://a.b/api/v1/query"),
        ("http://a.b/?dedup=true", "http://a.b/api/v1/query?dedup=true"),
    ],
)
def test_the_query_goes_to_the_api(server: str, want: str) -> None:
    assert str(prometheus.query_url(yarl.URL(server))) == want


def test_the_query_arrives_as_written_with_the_key_as_bearer() -> None:
    fake = contract.FakeWeb(page=wire.Page(status=200, body=answer("scalar", [1, "2"])))
    want = 'sum(rate(jobs{queue=~"a+b&c"}[5m])) or vector(0) # 100%'
    queue = prometheus.PrometheusQueue(
        fake, yarl.URL("http://a.b?x=y"), namespace="jobs", query=want, secret=contract.SECRET
    )
    assert asyncio.run(queue.length()) == 2
    [(url, headers, _)] = fake.asked
    assert dict(url.query) == {"x": "y", "query": want}
    assert headers == {"Authorization": f"Bearer {contract.KEY}"}


@pytest.mark.parametrize("status", [400, 422])
def test_a_query_that_prometheus_refuses_says_to_try_it_there(status: int) -> None:
    fake = contract.FakeWeb(page=wire.Page(status=status, body=b"{}"))
    queue = prometheus.PrometheusQueue(fake, yarl.URL("http://a.b"), namespace="jobs", query="sum(", secret=None)
    assert "try the query" in asyncio.run(contract.check_fails(queue, port.Reason.FAILED))
