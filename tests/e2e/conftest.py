"""Planes for the tests on real parts. Without the tools these fail, saying `make tools`; nothing is skipped."""

import contextlib
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import boto3
import pytest

from tests.e2e import groups, waiting
from tools.local.components import Options
from tools.local.plane import Plane

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """The plane all tests share. A test that stops or restarts a component starts a plane of its own.

    After a restart of the API server the controllers' watches are back in seconds, but what came and went meanwhile
    was never seen by them.
    """
    with Plane.start(tmp_path_factory.mktemp("plane")) as started:
        yield started


@pytest.fixture
def start_plane(tmp_path: Path) -> Iterator[Callable[[Options], Plane]]:
    """Start further planes, stopped at the end of the test."""
    with contextlib.ExitStack() as stack:

        def start(options: Options) -> Plane:
            return stack.enter_context(Plane.start(tmp_path / secrets.token_hex(4), options))

        yield start


@pytest.fixture
def namespace(plane: Plane) -> Iterator[str]:
    """A namespace of the test's own, in which pods may be created at once."""
    name = f"test-{secrets.token_hex(4)}"
    plane.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    waiting.eventually(lambda: plane.api.get(f"/api/v1/namespaces/{name}/serviceaccounts/default"))
    yield name
    plane.api.delete(f"/api/v1/namespaces/{name}")


@pytest.fixture
def group(plane: Plane) -> Iterator[groups.NodeGroup]:
    """An empty group of m5.large in the first zone."""
    made = groups.create(plane, f"group-{secrets.token_hex(4)}")
    yield made
    made.delete()


@pytest.fixture
def amazon(plane: Plane) -> "Iterator[SQSClient]":
    """A client of the plane's SQS."""
    client = boto3.session.Session().client(
        "sqs",
        endpoint_url=plane.aws_endpoint,
        region_name=plane.region,
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
    )
    yield client
    client.close()
