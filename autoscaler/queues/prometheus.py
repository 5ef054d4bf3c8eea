"""A queue whose length Prometheus knows: an instant query that has exactly one value."""

from typing import Final

import msgspec
import yarl

from autoscaler.queues import counts, endpoints, http, port, secrets, web

PATH: Final = "api/v1/query"
_SHAPE: Final = http.Shape(header_format=f"Bearer {http.KEY}")
_BAD_QUERY: Final = frozenset({400, 422})

_Sample = tuple[float, str]


class _Series(msgspec.Struct):
    value: _Sample | None = None


class _Data(msgspec.Struct):
    result_type: str = msgspec.field(name="resultType")
    result: msgspec.Raw


class _Answer(msgspec.Struct):
    data: _Data


_ANSWER: Final = msgspec.json.Decoder(_Answer)
_SCALAR: Final = msgspec.json.Decoder(_Sample)
_VECTOR: Final = msgspec.json.Decoder(list[_Series])


class PrometheusQueue:
    """One query."""

    def __init__(
        self, getter: web.Getter, server: yarl.URL, *, namespace: str, query: str, secret: port.SecretData | None
    ) -> None:
        self._web = getter
        self._namespace = namespace
        self._url = query_url(server)
        self._query = query
        self._secret = secret

    async def length(self) -> int:
        url = self._url.update_query(query=self._query)
        headers = http.authorization(self._secret, _SHAPE)
        authority = secrets.authority(self._secret)
        page = await self._web.get(url, headers, namespace=self._namespace, authority=authority)
        if page.status in _BAD_QUERY:
            asked = f"the query at {endpoints.shown(url)}"
            raise port.QueueError(
                port.Reason.FAILED, f"{asked} was answered with {page.status}: try the query in Prometheus itself"
            )
        http.check_status(page.status, url)
        return read(page.body, where=f"the query's value at {endpoints.shown(url)}")


def query_url(server: yarl.URL) -> yarl.URL:
    """Return where a server takes instant queries; the endpoint may name that page itself."""
    path = server.path.rstrip("/")
    return server.with_path(path if path.endswith(f"/{PATH}") else f"{path}/{PATH}", keep_query=True)


def read(body: bytes, *, where: str) -> int:
    """Read a scalar, or a vector of one sample."""
    try:
        data = _ANSWER.decode(body).data
        samples = _samples(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise port.QueueError(
            port.Reason.NOT_A_NUMBER, f"{where} cannot be read: see whether the endpoint is a Prometheus server"
        ) from error
    if len(samples) != 1 or (sample := samples[0]) is None:
        raise _not_one(where, len(samples), data.result_type)
    return counts.from_text(sample[1], where=where)


def _samples(data: _Data) -> list[_Sample | None]:
    match data.result_type:
        case "scalar":
            return [_SCALAR.decode(data.result)]
        case "vector":
            return [series.value for series in _VECTOR.decode(data.result)]
        case _:
            return []


def _not_one(where: str, count: int, kind: str) -> port.QueueError:
    match kind, count:
        case "vector", 0:
            what = "is missing: it matched no series. Where that means an empty queue, write `… or vector(0)`"
        case "vector", _:
            what = f"is not one but {count}: aggregate it with sum(…)"
        case _:
            what = "is neither a scalar nor a vector: write an instant query that gives one number"
    return port.QueueError(port.Reason.NOT_ONE_VALUE, f"{where} {what}")
