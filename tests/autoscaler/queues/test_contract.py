"""Each adapter, on a fake server, keeps the port's contract. tests/e2e/queues asks the same of real servers."""

import asyncio

import pytest

from autoscaler.api.resources import worker_pools
from tests.autoscaler.queues import contract

WORLDS = {
    "http": contract.faked_web("http"),
    "prometheus": contract.faked_web("prometheus", query="jobs"),
    "sqs": contract.faked_sqs,
}


def test_every_kind_of_source_is_held_to_the_contract() -> None:
    assert set(WORLDS) == set(worker_pools.SourceType)


@pytest.mark.parametrize("kind", WORLDS)
def test_the_length_is_told(kind: str) -> None:
    asyncio.run(contract.check_numbers(WORLDS[kind]))


@pytest.mark.accept("W19")
@pytest.mark.parametrize("kind", WORLDS)
def test_a_failure_is_an_error_and_never_a_number(kind: str) -> None:
    asyncio.run(contract.check_failures(WORLDS[kind]))
