"""How the process was started: flags, each with an environment variable behind it, checked before anything happens."""

import argparse
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self
from urllib import parse

import pydantic
from pydantic import AfterValidator, BeforeValidator, Field, Json, ValidationInfo

from autoscaler.api import controllers
from autoscaler.api.permissions import WorkerScope
from autoscaler.api.resources.types import DnsLabel, DnsName
from autoscaler.api.settings import sleepers
from autoscaler.api.settings.queue_access import QueueAccess
from autoscaler.api.settings.queued_jobs import QueuedJobs
from autoscaler.api.settings.scaling import Scaling
from autoscaler.kube.connection import credentials
from autoscaler.kube.leases import election

PREFIX: Final = "SLUICE_"
KUBECONFIG: Final = "KUBECONFIG"
CONTROLLERS: Final = tuple(controllers.CONTROLLERS)
"""The controllers of this version, by the names that --controllers takes."""
ALL: Final = "*"
"""Among --controllers: every controller that is not left out by a minus before its name."""
SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_VARIABLES: Final = {"aws_endpoint": "AWS_ENDPOINT_URL", "aws_region": "AWS_REGION"}
"""Settings that the environment alone says, under names that are not ours."""


class SettingsError(Exception):
    """The process was started wrongly; the message lists everything that is wrong."""


def _names(text: object) -> object:
    """Take apart what has commas between."""
    return [part.strip() for part in text.split(",") if part.strip()] if isinstance(text, str) else text


def _url(text: str) -> str:
    parts = parse.urlsplit(text)
    has_server = bool(parts.hostname) and parts.port != 0
    if parts.scheme not in {"http", "https"} or not has_server or not text.isprintable() or " " in text:
        raise ValueError("must be a URL with http or https and a host")
    return text


def _listen(text: str) -> tuple[str, str]:
    host, _, port = text.rpartition(":")
    if not host:
        raise ValueError("must be HOST:PORT")
    return host.strip("[]"), port


def _controllers(asked: Sequence[str], info: ValidationInfo) -> tuple[str, ...]:
    """Choose among the controllers that are known; any that Sluice ever has may be left out."""
    known: Sequence[str] = (info.context or {}).get("known", CONTROLLERS)
    without = {name.removeprefix("-") for name in asked if name.startswith("-")}
    wanted = {name for name in asked if not name.startswith("-")}
    if not wanted:
        raise ValueError("must name at least one, or *, or be left out")
    if unknown := sorted({*(wanted - {ALL, *known}), *(without - {*CONTROLLERS, *known})}):
        raise ValueError(f"{', '.join(unknown)} not among {', '.join(known) or '(none)'}")
    if both := sorted(wanted & without):
        raise ValueError(f"{', '.join(both)} cannot be both chosen and left out")
    return tuple(name for name in known if name not in without and (ALL in wanted or name in wanted))


def _origin(given: Mapping[str, str | None]) -> credentials.Origin:
    if kubeconfig := given["kubeconfig"]:
        return credentials.KubeConfig(path=Path(kubeconfig), context=given["context"])
    host, port = given["KUBERNETES_SERVICE_HOST"], given["KUBERNETES_SERVICE_PORT"] or "443"
    if not host:
        raise ValueError("--kubeconfig: must be given outside a pod (KUBERNETES_SERVICE_HOST is not set)")
    if not port.isdecimal():
        raise ValueError(f"KUBERNETES_SERVICE_PORT: {port!r} is not a port")
    directory = Path(given[f"{PREFIX}TOKEN_DIRECTORY"] or SERVICE_ACCOUNT)
    return credentials.InCluster(host=host, port=int(port), directory=directory)


Url = Annotated[str, AfterValidator(_url)]
Port = Annotated[int, Field(ge=0, le=65535)]


class Settings(pydantic.BaseModel):
    """How the process was started. The texts are what `run --help` says of each flag."""

    model_config = pydantic.ConfigDict(frozen=True, use_attribute_docstrings=True, validate_default=True)

    namespace: DnsLabel
    """the runtime's own namespace, where its Leases are"""
    identity: str = Field(default_factory=socket.gethostname)
    """the name under which it acts, which all replicas share; default: the host's name"""
    pod_name: str = Field(default_factory=socket.gethostname)
    """this replica's own name; default: the host's name"""
    controllers: Annotated[tuple[str, ...], BeforeValidator(_names), AfterValidator(_controllers)] = (ALL,)
    """which controllers to run, with commas; * is all of them, -NAME leaves one out; default: *"""
    observe: bool = False
    """plan, tell, write nothing"""
    class_name: DnsName | None = None
    """handle worker pools of this class"""
    default_class: bool = True
    """handle worker pools without a class"""
    scope: WorkerScope = WorkerScope.NAMESPACE
    """whose worker pools to handle: namespace or cluster"""
    cluster: Annotated[str, Field(max_length=100, pattern="^[A-Za-z0-9][A-Za-z0-9_-]*$")] | None = None
    """the cluster's name in AWS, which tags its node groups"""
    interruption_queue: Annotated[str, Field(pattern=r"^https?://[^\s/]+/\S+$")] | None = None
    """URL of the queue with spot notices and failed launches"""
    scaling: Json[Scaling] = Field(default_factory=Scaling, validate_default=False)
    """how to scale nodes, as `python -m components scaling` writes it"""
    queued_jobs: Json[QueuedJobs] = Field(default_factory=QueuedJobs, validate_default=False)
    """how to handle queued jobs, as `python -m components queuedjobs` writes it"""
    sleeper_image: sleepers.Image = sleepers.IMAGE
    """the image of pods that hold the room of machines"""
    api_servers: Annotated[tuple[Url, ...], BeforeValidator(_names)] = ()
    """more URLs of the cluster's own API server, with commas; no worker pool may ask it"""
    queue_access: Json[QueueAccess] = Field(default_factory=QueueAccess, validate_default=False)
    """what worker pools may ask besides public hosts and Services of their own namespace, as JSON: {"NAMESPACE":
    {"hosts": [...], "cidrs": [...], "namespaces": [...]}}"""
    allow_loopback_queues: bool = False
    """for development only: let worker pools ask queues on this computer"""
    listen: Annotated[tuple[str, Port], BeforeValidator(_listen)] = Field("0.0.0.0:8080", validate_default=True)
    """where health and metrics are served"""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """debug, info, warning or error"""
    lease_seconds: Annotated[int, Field(ge=2, le=300)] = 15
    """how long a Lease is good for"""
    aws_endpoint: Url | None = None
    """the endpoint to use instead of AWS's own; None: AWS's own"""
    aws_region: str | None = None
    """the region that AWS is asked in; None: each call says"""
    origin: Annotated[credentials.Origin, BeforeValidator(_origin)]
    """who we are to the API server"""

    @pydantic.model_validator(mode="after")
    def _handles_pools(self) -> Self:
        if not self.classes:
            raise ValueError("--class-name: must be given with --no-default-class, or no pool would be handled")
        return self

    @property
    def classes(self) -> tuple[str | None, ...]:
        """The classes of the worker pools that are handled; None is the default class."""
        default: tuple[str | None, ...] = (None,) if self.default_class else ()
        return default if self.class_name is None else (*default, self.class_name)

    @property
    def terms(self) -> election.Terms:
        """How long a Lease is good for, and how its time is divided."""
        return election.Terms.of(self.lease_seconds)


def add_arguments(parser: argparse.ArgumentParser, known: Sequence[str]) -> None:
    """Add the flags of `run`, each with the environment variable behind it."""
    for name, field in Settings.model_fields.items():
        if name in _VARIABLES or name == "origin":
            continue
        told = f"{field.description}{_default(field.default)} [{_variable(name)}]"
        if name == "controllers":
            told = f"{told} ({', '.join(known) or 'none'})"
        if field.annotation is not bool:
            parser.add_argument(_flag(name), help=told)
        elif field.default:
            parser.add_argument(_flag(name), action=argparse.BooleanOptionalAction, help=told)
        else:
            parser.add_argument(_flag(name), action="store_true", default=None, help=told)
    parser.add_argument("--kubeconfig", help=f"default: the pod's ServiceAccount [{KUBECONFIG}]")
    parser.add_argument("--context", help="the context in the kubeconfig; default: its current one [SLUICE_CONTEXT]")


def read(arguments: argparse.Namespace, known: Sequence[str], environment: Mapping[str, str] | None = None) -> Settings:
    """Read flags, then environment, then defaults; raise SettingsError with everything that is wrong."""
    around = os.environ if environment is None else environment
    given = {name: _given(name, arguments, around) for name in Settings.model_fields}
    values: dict[str, object] = {name: text for name, text in given.items() if text is not None}
    values["origin"] = _surroundings(arguments, around)
    try:
        return Settings.model_validate(values, context={"known": known})
    except pydantic.ValidationError as error:
        raise SettingsError("\n".join(_complaints(error))) from error


def read_origin(
    arguments: argparse.Namespace, environment: Mapping[str, str] | None = None, *, is_home_read: bool = False
) -> credentials.Origin:
    """Read who we are to the API server, for commands that need nothing else; as kubectl does, also from home."""
    around = os.environ if environment is None else environment
    given = _surroundings(arguments, around)
    home = Path(around.get("HOME", "/")) / ".kube" / "config"
    if is_home_read and not given["kubeconfig"] and home.is_file():
        given["kubeconfig"] = str(home)
    try:
        return _origin(given)
    except ValueError as error:
        raise SettingsError(str(error)) from error


def _given(name: str, arguments: argparse.Namespace, environment: Mapping[str, str]) -> str | bool | None:
    flag: str | bool | None = getattr(arguments, name, None)
    return flag if flag not in (None, "") else environment.get(_variable(name)) or None


def _surroundings(arguments: argparse.Namespace, environment: Mapping[str, str]) -> dict[str, str | None]:
    """Gather what says who we are to the API server."""
    names = ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", f"{PREFIX}TOKEN_DIRECTORY")
    return {
        "kubeconfig": arguments.kubeconfig or environment.get(KUBECONFIG),
        "context": arguments.context or environment.get(_variable("context")) or None,
        **{name: environment.get(name) for name in names},
    }


def _complaints(error: pydantic.ValidationError) -> Iterator[str]:
    """Say of each setting that is wrong what was given and what is expected."""
    for each in error.errors(include_url=False, include_context=False):
        message = each["msg"].removeprefix("Value error, ")
        if message.startswith(("--", "KUBERNETES_")):
            yield message
            continue
        name, *place = map(str, each["loc"])
        where = f" {'.'.join(place)}:" if place else ""
        given = "" if each["type"] == "missing" else f" {each['input']!r}:"
        called = _variable(name) if name in _VARIABLES else f"{_flag(name)} or {_variable(name)}"
        yield f"{called}:{where}{given} {message}"


def _default(value: Any) -> str:  # noqa: ANN401  # a default is of any type
    return f"; default: {value}" if isinstance(value, str | int) and value else ""


def _variable(name: str) -> str:
    return _VARIABLES.get(name, f"{PREFIX}{name.upper()}")


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
