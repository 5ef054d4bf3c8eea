"""The seed's queue: a page that holds the number of waiting jobs, alone or in a field of a JSON document."""

from dataclasses import dataclass
from typing import Final

import yarl

from autoscaler.queues import counts, endpoints, port, secrets, web

KEY: Final = "{key}"
"""Stands for the API key in a header's format."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How a page is asked for and read. The defaults fit an API key of the seed's web server."""

    header: str = "Authorization"
    header_format: str = f"Apikey {KEY}"
    field: str | None = None
    """Dotted path of the number's field; None: the whole body is the number."""


DEFAULT: Final = Shape()


class HttpQueue:
    """One page."""

    def __init__(
        self,
        getter: web.Getter,
        url: yarl.URL,
        *,
        namespace: str,
        secret: port.SecretData | None,
        shape: Shape = DEFAULT,
    ) -> None:
        self._web = getter
        self._url = url
        self._namespace = namespace
        self._secret = secret
        self._shape = shape

    async def length(self) -> int:
        headers = authorization(self._secret, self._shape)
        authority = secrets.authority(self._secret)
        page = await self._web.get(self._url, headers, namespace=self._namespace, authority=authority)
        check_status(page.status, self._url)
        where = f"the answer to GET {endpoints.shown(self._url)}"
        return counts.from_body(page.body, field=self._shape.field, where=where)


def authorization(secret: port.SecretData | None, shape: Shape) -> dict[str, str]:
    """Return the header that carries the API key; none without a Secret."""
    if secret is None:
        return {}
    return {shape.header: shape.header_format.replace(KEY, secrets.api_key(secret))}


def check_status(status: int, url: yarl.URL) -> None:
    """Raise QueueError unless the status says that the number was given."""
    asked = f"GET {endpoints.shown(url)} was answered with {status}"
    match status:
        case 200:
            return
        case 401 | 403 | 407:
            raise port.QueueError(
                port.Reason.UNAUTHORIZED, f"{asked}: see whether key {port.API_KEY} of the pool's Secret is still valid"
            )
        case 404 | 410:
            raise port.QueueError(port.Reason.NOT_FOUND, f"{asked}: see whether the endpoint's path is right")
        case _:
            raise port.QueueError(port.Reason.FAILED, f"{asked}: see the server's own log")
