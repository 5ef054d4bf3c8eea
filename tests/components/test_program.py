"""The program as a whole, evaluated with a recording monitor: every definition and policy, in order, retained."""

import asyncio
import concurrent.futures
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pulumi
import pytest
from pulumi.runtime import mocks

from autoscaler.api import crds
from components import custom_resources

ROOT = Path(__file__).parent.parent.parent


class Recorder(mocks.Mocks):
    """Remembers what is registered, in order."""

    def __init__(self) -> None:
        self.made: list[mocks.MockResourceArgs] = []

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str, dict[Any, Any]]:
        self.made.append(args)
        return f"{args.name}-id", args.inputs

    def call(self, args: mocks.MockCallArgs) -> tuple[dict[Any, Any], None]:
        raise AssertionError(f"the program must not look anything up: {args.token}")

    def of_type(self, suffix: str) -> list[mocks.MockResourceArgs]:
        return [args for args in self.made if args.typ.endswith(suffix)]


class Monitor(mocks.MockMonitor):
    """Remembers the requests themselves, with their options."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__(recorder)
        self.requests: dict[str, Any] = {}

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802  # the name is the library's
        self.requests[request.name] = request
        return super().RegisterResource(request)  # type: ignore[no-untyped-call]


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture(scope="session")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """An event loop, and one in each of its worker threads: the SDK's mocks would make those and close none."""
    made = [asyncio.new_event_loop()]

    def furnish() -> None:
        made.append(asyncio.new_event_loop())
        asyncio.set_event_loop(made[-1])

    workers = concurrent.futures.ThreadPoolExecutor(initializer=furnish)
    made[0].set_default_executor(workers)
    yield made[0]
    workers.shutdown()
    for one in made:
        one.close()


@pytest.fixture
def monitor(recorder: Recorder, loop: asyncio.AbstractEventLoop) -> Iterator[Monitor]:
    asyncio.set_event_loop(loop)  # the SDK takes the thread's loop, and an earlier test may have closed that
    made = Monitor(recorder)
    pulumi.runtime.set_mocks(recorder, project="sluice", stack="local", monitor=made)
    yield made
    asyncio.set_event_loop(None)


def run_program() -> None:
    @pulumi.runtime.test  # type: ignore[untyped-decorator,unused-ignore]
    def program() -> None:
        runpy.run_path(str(ROOT / "__main__.py"))

    program()


def test_every_definition_is_made_as_the_api_says_and_retained(recorder: Recorder, monitor: Monitor) -> None:
    run_program()
    made = recorder.of_type(":CustomResourceDefinition")
    want = {manifest["metadata"]["name"]: manifest["spec"] for manifest in crds.all_crds()}
    assert {args.inputs["metadata"]["name"]: args.inputs["spec"] for args in made} == want
    assert all(monitor.requests[args.name].retainOnDelete for args in made)
    assert all("Definitions" in monitor.requests[args.name].parent for args in made)


def test_policies_come_after_definitions_and_bindings_after_policies(recorder: Recorder, monitor: Monitor) -> None:
    run_program()
    (policy,) = recorder.of_type(":ValidatingAdmissionPolicy")
    (binding,) = recorder.of_type(":ValidatingAdmissionPolicyBinding")
    assert binding.inputs["spec"]["policyName"] == policy.inputs["metadata"]["name"]
    assert any(policy.name in urn for urn in monitor.requests[binding.name].dependencies)
    assert any("instancepool" in urn for urn in monitor.requests[policy.name].dependencies)


@pytest.mark.usefixtures("monitor")
def test_the_worker_pool_definition_can_be_left_to_somebody_else(recorder: Recorder) -> None:
    @pulumi.runtime.test  # type: ignore[untyped-decorator,unused-ignore]
    def program() -> None:
        custom_resources.Definitions("d", custom_resources.DefinitionsArgs(install_worker_pool=False))

    program()
    kinds = {args.inputs["spec"]["names"]["kind"] for args in recorder.of_type(":CustomResourceDefinition")}
    assert kinds == set(crds.names()) - {"WorkerPool"}
