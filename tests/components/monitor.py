"""A recording monitor: runs a Pulumi program without engine or cloud and remembers everything it registered.

`run(program)` gives a `World`: each resource with its inputs and options, the stack's outputs, and the log. What AWS
would fill in (ids, ARNs) is made up from names, so that a test can say where a value goes. Look-ups are refused,
because previews must need none, and so are two resources under one URN, as the engine would.
"""

import asyncio
import concurrent.futures
import contextvars
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import pulumi
from pulumi.runtime import mocks, rpc, settings, stack

STACK: Final = "test"
PROJECT: Final = "sluice"
OWN_OUTPUTS: Final = "pulumi:pulumi:readStackOutputs"
"""How a program asks for what its own stack has: nothing, for it was never brought up."""
Outputs = Callable[[str, str, Mapping[str, Any]], Mapping[str, Any]]
"""What the cloud adds to a resource: from its type, name and inputs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A resource as it was registered."""

    type: str
    name: str
    urn: str
    custom: bool
    """False for components."""
    inputs: Mapping[str, Any]
    """Without the marks of secrets."""
    secret_inputs: frozenset[str]
    """The inputs that are secret, or hold a secret."""
    parent: str
    """A URN."""
    dependencies: frozenset[str]
    """URNs of all that it waits for: by depends_on, and by its inputs."""
    input_dependencies: Mapping[str, frozenset[str]]
    """URNs by the input that brings them."""
    provider: str
    """URN::id of the provider; empty for the default one."""
    providers: Mapping[str, str]
    """A component's providers by package."""
    ignore_changes: tuple[str, ...]
    secret_outputs: tuple[str, ...]
    replace_on_changes: tuple[str, ...]
    retain_on_delete: bool
    protect: bool
    delete_before_replace: bool
    deleted_with: str
    aliases: int
    timeouts: Mapping[str, str]
    """The custom timeouts that are set: create, update, delete."""

    def waits_for(self, other: "Made") -> bool:
        return other.urn in self.dependencies


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Everything a program did."""

    made: list[Made] = field(default_factory=list)
    outputs: dict[str, Any] = field(default_factory=dict)
    """The stack's outputs, without the marks of secrets."""
    secret_outputs: set[str] = field(default_factory=set)
    logs: list[str] = field(default_factory=list)

    def of_type(self, suffix: str) -> list[Made]:
        """Return the resources whose type ends so, such as `:Group` or `ec2/vpc:Vpc`, in order."""
        return [one for one in self.made if one.type.endswith(suffix)]

    def one(self, suffix: str, name: str | None = None) -> Made:
        """Return the one resource of a type, or of a type and name."""
        found = [one for one in self.of_type(suffix) if name is None or one.name == name]
        if len(found) != 1:
            names = ", ".join(f"{made.type} {made.name}" for made in found or self.made)
            raise AssertionError(f"there are {len(found)} resources {suffix} {name or ''}, not one: {names}")
        return found[0]

    def named(self, suffix: str) -> dict[str, Made]:
        """Return the resources of a type by name."""
        return {made.name: made for made in self.of_type(suffix)}

    def by_urn(self, urn: str) -> Made:
        return next(made for made in self.made if made.urn == urn)

    def types(self) -> list[str]:
        """List the types of everything but components, sorted, each as often as it was made."""
        return sorted(made.type for made in self.made if made.custom)

    def text(self) -> str:
        """Write all inputs that are no secrets as one text, to look for what must not be there."""
        shown = [
            {key: value for key, value in made.inputs.items() if key not in made.secret_inputs} for made in self.made
        ]
        return json.dumps(shown, default=str, sort_keys=True)


def of_the_cloud(type_: str, name: str, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Make up what AWS would fill in."""
    if not type_.startswith("aws:"):
        return {}
    kind = type_.rpartition(":")[2]
    known: dict[str, Mapping[str, Any]] = {
        "Cluster": {
            "endpoint": f"https://{name}.example",
            "certificateAuthority": {"data": "Q0E="},
            "vpcConfig": {"clusterSecurityGroupId": f"sg-{name}"},
        },
        "LaunchTemplate": {"latestVersion": 7},
        "Queue": {"url": f"https://sqs.example/{name}"},
        "Repository": {"repositoryUrl": f"registry.example/{name}"},
    }
    return {"arn": f"arn:aws:mock::{kind}/{name}", "name": inputs.get("name", name), **known.get(kind, {})}


def run(
    program: Callable[[], object],
    *,
    config: Mapping[str, str] | None = None,
    secret_keys: Sequence[str] = (),
    cloud: Outputs = of_the_cloud,
    preview: bool = False,
) -> World:
    """Run a program; what it returns, if a mapping, is exported as the stack's outputs."""
    return contextvars.copy_context().run(_run, program, dict(config or {}), list(secret_keys), cloud, preview)


def _run(
    program: Callable[[], object],
    config: dict[str, str],
    secret_keys: list[str],
    cloud: Outputs,
    preview: bool,  # noqa: FBT001
) -> World:
    world = World()
    monitor = _Monitor(world, cloud)
    with _event_loop() as loop:
        pulumi.runtime.set_all_config(config, secret_keys)
        mocks.set_mocks(monitor.mocks, project=PROJECT, stack=STACK, preview=preview, monitor=monitor)
        settings.SETTINGS.engine = _Engine(world)
        settings.SETTINGS.rpc_manager.clear()
        settings.SETTINGS.outputs.clear()  # a program that failed leaves some, of a loop that is closed
        settings.ROOT.set(None)
        loop.run_until_complete(stack.run_in_stack(lambda: _exported(program())))
    return world


def _exported(returned: object) -> None:
    if isinstance(returned, Mapping):
        for key, value in returned.items():
            pulumi.export(key, value)


@contextmanager
def _event_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """An event loop, and one in each of its worker threads: the SDK's mocks would make those and close none."""
    made = [asyncio.new_event_loop()]

    def furnish() -> None:
        made.append(asyncio.new_event_loop())
        asyncio.set_event_loop(made[-1])

    workers = concurrent.futures.ThreadPoolExecutor(max_workers=4, initializer=furnish)
    made[0].set_default_executor(workers)
    asyncio.set_event_loop(made[0])
    try:
        yield made[0]
    finally:
        for task in asyncio.all_tasks(made[0]):
            task.cancel()
        workers.shutdown()
        asyncio.set_event_loop(None)
        for one in made:
            one.close()


class _Answers(mocks.Mocks):
    def __init__(self, cloud: Outputs) -> None:
        self._cloud = cloud

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str, dict[Any, Any]]:
        return f"{args.name}-id", {**args.inputs, **self._cloud(args.typ, args.name, args.inputs)}

    def call(self, args: mocks.MockCallArgs) -> tuple[dict[Any, Any], list[tuple[str, str]]]:
        if args.token == OWN_OUTPUTS:  # asked of the engine, not of a cloud
            return {"outputs": {}}, []
        raise AssertionError(f"the program must not look anything up: {args.token}")


class _Monitor(mocks.MockMonitor):
    """Remembers the requests, which come from several threads."""

    def __init__(self, world: World, cloud: Outputs) -> None:
        super().__init__(_Answers(cloud))
        self._world = world
        self._lock = threading.Lock()

    def make_urn(self, parent: str, type_: str, name: str) -> str:
        """Name a resource as the engine does, with the types of all its ancestors."""
        above = parent.split("::")[2] if parent else ""
        full = type_ if above in {"", "pulumi:pulumi:Stack"} else f"{above}${type_}"
        return f"urn:pulumi:{STACK}::{PROJECT}::{full}::{name}"

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802  # the name is the library's
        made = _made(request, self.make_urn(request.parent, request.type, request.name))
        if made.type != "pulumi:pulumi:Stack":
            with self._lock:
                if any(other.urn == made.urn for other in self._world.made):
                    raise AssertionError(f"two resources have the URN {made.urn}")
                self._world.made.append(made)
        return super().RegisterResource(request)  # type: ignore[no-untyped-call]

    def RegisterResourceOutputs(self, request: Any) -> Any:  # noqa: N802  # the name is the library's
        if "pulumi:pulumi:Stack" in request.urn:
            outputs, secrets = _plain(request.outputs)
            self._world.outputs.update(outputs)
            self._world.secret_outputs.update(secrets)
        return super().RegisterResourceOutputs(request)  # type: ignore[no-untyped-call]


class _Engine:
    """Remembers what is logged."""

    def __init__(self, world: World) -> None:
        self._world = world

    def Log(self, request: Any) -> None:  # noqa: N802  # the name is the library's
        if request.severity:  # debugging is 0
            self._world.logs.append(request.message)


def _made(request: Any, urn: str) -> Made:
    inputs, secrets = _plain(request.object)
    timeouts = {kind: getattr(request.customTimeouts, kind) for kind in ("create", "update", "delete")}
    return Made(
        type=request.type,
        name=request.name,
        urn=urn,
        custom=request.custom,
        inputs=inputs,
        secret_inputs=frozenset(secrets),
        parent=request.parent,
        dependencies=frozenset(request.dependencies),
        input_dependencies={key: frozenset(value.urns) for key, value in request.propertyDependencies.items()},
        provider=request.provider,
        providers=dict(request.providers),
        ignore_changes=tuple(request.ignoreChanges),
        secret_outputs=tuple(request.additionalSecretOutputs),
        replace_on_changes=tuple(request.replaceOnChanges),
        retain_on_delete=request.retainOnDelete,
        protect=request.protect,
        delete_before_replace=request.deleteBeforeReplace,
        deleted_with=request.deletedWith,
        aliases=len(request.aliases),
        timeouts={kind: value for kind, value in timeouts.items() if value},
    )


def _plain(struct: Any) -> tuple[dict[str, Any], set[str]]:
    """Read values, and name those that are secret or hold a secret."""
    values = rpc.deserialize_properties(struct)
    secrets = {key for key, value in values.items() if rpc.is_rpc_secret(value)}
    return {key: rpc.unwrap_rpc_secret(value) for key, value in values.items()}, secrets
