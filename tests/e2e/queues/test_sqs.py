"""The sqs source on moto, over the wire."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest

from autoscaler.queues import endpoints, port, sources, sqs, wire
from tests.autoscaler.queues import contract
from tests.e2e.queues import servers
from tools.local.plane import Plane

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient


def empty(amazon: "SQSClient", url: str) -> None:
    """Take every message; a queue may be purged but once a minute."""
    while messages := amazon.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
        for message in messages:
            amazon.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])


@pytest.fixture
def world(plane: Plane, amazon: "SQSClient") -> contract.Opener:
    @contextlib.asynccontextmanager
    async def opened() -> AsyncIterator[contract.World]:
        url = amazon.create_queue(QueueName=f"jobs-{secrets.token_hex(4)}")["QueueUrl"]
        override = sqs.Account(endpoint=plane.aws_endpoint, region=plane.region)
        async with contextlib.aclosing(sources.Sources.open(contract.DEVELOPMENT, aws=override)) as shared:

            async def hold(value: int) -> None:
                await asyncio.to_thread(empty, amazon, url)
                for number in range(value):
                    await asyncio.to_thread(amazon.send_message, QueueUrl=url, MessageBody=str(number))

            async def break_(_: port.Reason) -> None:
                await asyncio.to_thread(amazon.delete_queue, QueueUrl=url)

            yield contract.World(
                queue=lambda: shared.queue(contract.source("sqs", url), namespace="jobs", secret=contract.SECRET),
                hold=hold,
                break_=break_,
                breaks=(port.Reason.NOT_FOUND,),
            )

    return opened


@pytest.mark.accept("W21")
def test_the_length_is_told(world: contract.Opener) -> None:
    asyncio.run(contract.check_numbers(world))


@pytest.mark.accept("W21")
def test_failures_are_errors(world: contract.Opener) -> None:
    asyncio.run(contract.check_failures(world))


@pytest.mark.parametrize(
    ("handler", "want"),
    [
        (servers.raw(), port.Reason.UNREACHABLE),
        (servers.page(b"<html>no</html>"), port.Reason.NOT_A_NUMBER),
        (servers.page(b"<html>no</html>", 500), port.Reason.FAILED),
        (servers.page(b'{"__type":"AccessDenied"}', 403), port.Reason.UNAUTHORIZED),
        (servers.page(b"{}"), port.Reason.NOT_A_NUMBER),
        (servers.page(b'{"Attributes":{"ApproximateNumberOfMessages":"-2"}}'), port.Reason.NEGATIVE),
        (servers.silence, port.Reason.TIMEOUT),
    ],
)
def test_a_rude_server_costs_an_error(handler: servers.Handler, want: port.Reason) -> None:
    async def act() -> None:
        async with servers.running({"/": handler}) as server:
            override = sqs.Account(endpoint=server.url(""), region="eu-west-1")
            async with contextlib.aclosing(sources.Sources.open(contract.DEVELOPMENT, aws=override)) as shared:
                source = contract.source("sqs", server.url("/123456789012/jobs"))
                queue = shared.queue(source, namespace="jobs", secret=contract.SECRET)
                await contract.check_fails(queue, want)
                assert len(server.requests) == 1, "one attempt: the next poll is the next"

    asyncio.run(act())


def test_a_server_that_is_not_there_is_unreachable() -> None:
    async def act() -> None:
        async with servers.running() as server:
            endpoint = server.url("")
        override = sqs.Account(endpoint=endpoint, region="eu-west-1")
        async with contextlib.aclosing(sources.Sources.open(contract.DEVELOPMENT, aws=override)) as shared:
            source = contract.source("sqs", f"{endpoint}/123456789012/jobs")
            queue = shared.queue(source, namespace="jobs", secret=contract.SECRET)
            await contract.check_fails(queue, port.Reason.UNREACHABLE)

    asyncio.run(act())


@pytest.mark.accept("W19", "W21")
def test_two_hundred_credentials_are_all_answered(plane: Plane, amazon: "SQSClient") -> None:
    url = amazon.create_queue(QueueName=f"jobs-{secrets.token_hex(4)}")["QueueUrl"]
    amazon.send_message(QueueUrl=url, MessageBody="one")
    override = sqs.Account(endpoint=plane.aws_endpoint, region=plane.region)

    async def act() -> None:
        patient = wire.Limits(timeout_seconds=30)  # moto answers one at a time
        async with contextlib.aclosing(
            sources.Sources.open(endpoints.Policy(), aws=override, limits=patient)
        ) as shared:
            for _ in range(3):
                queues = [
                    shared.queue(
                        contract.source("sqs", url),
                        namespace=f"tenant-{number}",
                        secret={"ApiKey": b"x", "AccessKeyId": f"AKID{number}".encode()},
                    )
                    for number in range(200)
                ]
                ends = await asyncio.gather(*(queue.length() for queue in queues), return_exceptions=True)
                assert ends == [1] * 200

    asyncio.run(act())


@pytest.mark.accept("W19")
def test_credentials_share_connections_and_are_each_their_own() -> None:
    body = b'{"Attributes":{"ApproximateNumberOfMessages":"2"}}'

    def account(endpoint: str, number: int) -> sqs.Account:
        keys = sqs.Keys(access_key_id=f"AKID{number}", secret_access_key="x")
        return sqs.Account(endpoint=endpoint, region="eu-west-1", keys=keys)

    async def act() -> None:
        async with servers.running({"/": servers.page(body)}) as server:
            async with contextlib.aclosing(sqs.Sqs()) as reader:
                for _ in range(3):
                    asked = (reader.count(account(server.url(""), number), server.url("/1/q")) for number in range(200))
                    assert await asyncio.gather(*asked, return_exceptions=True) == ["2"] * 200
            assert server.connections <= wire.CONNECTIONS_PER_HOST
            used = [headers["Authorization"].split("Credential=")[1].split("/")[0] for _, headers in server.requests]
            assert sorted(used) == sorted(f"AKID{number}" for number in range(200) for _ in range(3))

    asyncio.run(act())


@pytest.mark.accept("W19")
def test_pools_of_a_dead_endpoint_do_not_hold_up_those_of_a_good_one() -> None:
    body = b'{"Attributes":{"ApproximateNumberOfMessages":"2"}}'

    async def act() -> None:
        dead, good = {"/": servers.silence}, {"/": servers.page(body)}
        patient = wire.Limits(timeout_seconds=30)
        async with (
            servers.running(dead) as a,
            servers.running(good) as b,
            contextlib.aclosing(sqs.Sqs(limits=patient)) as reader,
        ):
            keys = sqs.Keys(access_key_id="a", secret_access_key="x")
            stuck = [
                asyncio.ensure_future(reader.count(sqs.Account(endpoint=a.url(""), region="r", keys=keys), a.url("/q")))
                for _ in range(200)
            ]
            while not a.requests:  # noqa: ASYNC110 - some wait by now
                await asyncio.sleep(0.01)
            account = sqs.Account(endpoint=b.url(""), region="r", keys=keys)
            got = await asyncio.wait_for(
                asyncio.gather(*(reader.count(account, b.url("/q")) for _ in range(50))), timeout=10
            )
            assert got == ["2"] * 50
            for task in stuck:
                task.cancel()
            await asyncio.gather(*stuck, return_exceptions=True)

    asyncio.run(act())
