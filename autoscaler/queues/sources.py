"""From a pool's QueueSource to its queue. The table at the end of this file is all that knows every kind."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Self

import yarl

from autoscaler.api.resources import worker_pools
from autoscaler.queues import endpoints, http, port, prometheus, sqs, web, wire


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One pool's queue, checked and ready to be made."""

    source: worker_pools.QueueSource
    namespace: str
    """The pool's."""
    url: yarl.URL
    secret: port.SecretData | None


class Sources:
    """All that adapters share: connections, threads, clients. One for the process; close it when done."""

    def __init__(self, *, getter: web.Getter, reader: sqs.Reader, aws: sqs.Override | None = None) -> None:
        self.web = getter
        self.sqs = reader
        self.aws = aws

    @classmethod
    def open(
        cls, policy: endpoints.Policy, *, aws: sqs.Override | None = None, limits: wire.Limits | None = None
    ) -> Self:
        """Make everything; nothing is sent yet. To be called within the event loop."""
        return cls(getter=web.Web(policy, limits=limits), reader=sqs.Sqs(limits=limits), aws=aws)

    def queue(self, source: worker_pools.QueueSource, *, namespace: str, secret: port.SecretData | None) -> port.Queue:
        """Return a pool's queue with its Secret as it is now (None: there is none); raise QueueError if it has no use.

        Nothing is sent and nothing is kept: call it for every reading, and a new credential is used at once.
        """
        if source.secret_name is not None and secret is None:
            raise port.QueueError(
                port.Reason.MISSING_SECRET,
                f"the queue of a pool in namespace {namespace} was not asked: Secret {source.secret_name} is not "
                f"there, or may not be read. Create it with key {port.API_KEY}, or let the runtime read Secrets there",
            )
        order = Order(
            source=source,
            namespace=namespace,
            url=endpoints.parse(source.endpoint, namespace=namespace),
            secret=secret if source.secret_name is not None else None,
        )
        return _MAKERS[source.type](self, order)

    async def aclose(self) -> None:
        """Close all connections."""
        await self.web.aclose()
        await self.sqs.aclose()


def _http(shared: Sources, order: Order) -> port.Queue:
    source = order.source
    shape = http.Shape(
        header=source.header or http.DEFAULT.header,
        header_format=source.header_format or http.DEFAULT.header_format,
        field=source.field,
    )
    return http.HttpQueue(shared.web, order.url, namespace=order.namespace, secret=order.secret, shape=shape)


def _sqs(shared: Sources, order: Order) -> port.Queue:
    return sqs.SqsQueue(shared.sqs, order.url, secret=order.secret, override=shared.aws)


def _prometheus(shared: Sources, order: Order) -> port.Queue:
    query = order.source.query or ""
    return prometheus.PrometheusQueue(
        shared.web, order.url, namespace=order.namespace, query=query, secret=order.secret
    )


_MAKERS: Final[Mapping[worker_pools.SourceType, Callable[[Sources, Order], port.Queue]]] = {
    worker_pools.SourceType.HTTP: _http,
    worker_pools.SourceType.SQS: _sqs,
    worker_pools.SourceType.PROMETHEUS: _prometheus,
}
