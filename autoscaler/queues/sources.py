"""From a pool's QueueSource to its queue: the match below is all that knows every kind."""

from typing import Self

from autoscaler.api.resources import worker_pools
from autoscaler.queues import endpoints, http, port, prometheus, sqs, web, wire


class Sources:
    """All that adapters share: connections, threads, clients. One for the process; close it when done."""

    def __init__(self, *, getter: web.Getter, reader: sqs.Reader, aws: sqs.Account | None = None) -> None:
        self.web = getter
        self.sqs = reader
        self.aws = aws

    @classmethod
    def open(
        cls, policy: endpoints.Policy, *, aws: sqs.Account | None = None, limits: wire.Limits | None = None
    ) -> Self:
        """Make everything; nothing is sent yet. To be called within the event loop."""
        return cls(getter=web.Web(policy, limits=limits), reader=sqs.Sqs(limits=limits), aws=aws)

    def queue(self, source: worker_pools.QueueSource, *, namespace: str, secret: port.SecretData | None) -> port.Queue:
        """Return a pool's queue with its Secret as it is now (None: it names none); raise QueueError if it has no use.

        Nothing is sent and nothing is kept: call it for every reading, and a new credential is used at once.
        """
        url = endpoints.parse(source.endpoint, namespace=namespace)
        match source.type:
            case worker_pools.SourceType.HTTP:
                shape = http.Shape(
                    header=source.header or http.DEFAULT.header,
                    header_format=source.header_format or http.DEFAULT.header_format,
                    field=source.field,
                )
                return http.HttpQueue(self.web, url, namespace=namespace, secret=secret, shape=shape)
            case worker_pools.SourceType.SQS:
                return sqs.SqsQueue(self.sqs, url, secret=secret, override=self.aws)
            case worker_pools.SourceType.PROMETHEUS:
                query = source.query or ""
                return prometheus.PrometheusQueue(self.web, url, namespace=namespace, query=query, secret=secret)

    async def aclose(self) -> None:
        """Close all connections."""
        await self.web.aclose()
        await self.sqs.aclose()
