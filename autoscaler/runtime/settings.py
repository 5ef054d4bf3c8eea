"""How the process was started: flags, each with an environment variable behind it, checked before anything happens."""

import argparse
import os
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar
from urllib import parse

import pydantic

from autoscaler.api import controllers, queued_jobs, sleepers
from autoscaler.api.features import FeatureGates
from autoscaler.api.permissions import WorkerScope
from autoscaler.api.queue_access import QueueAccess
from autoscaler.api.resources import types
from autoscaler.api.scaling import EXPANDERS, Expander, PriceList
from autoscaler.kube import credentials, election

PREFIX: Final = "SLUICE_"
KUBECONFIG: Final = "KUBECONFIG"
CONTROLLERS: Final = tuple(controllers.CONTROLLERS)
"""The controllers of this version, by the names that --controllers takes."""
ALL: Final = "*"
"""Among --controllers: every controller that is not left out by a minus before its name."""
_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_OPTIONAL_CLASS: Final[pydantic.TypeAdapter[str | None]] = pydantic.TypeAdapter(types.DnsName | None)
"""What a pool may name as its class."""
_CLUSTER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_IMAGE: Final = re.compile(sleepers.IMAGE_FORM)
_QUEUE: Final = re.compile(r"https?://[^\s/]+/\S+")
_NO_URL: Final = "must be a URL with http or https and a host"
G = TypeVar("G")
M = TypeVar("M", bound=pydantic.BaseModel)
LOG_LEVELS: Final = ("debug", "info", "warning", "error")
SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class SettingsError(Exception):
    """The process was started wrongly; the message lists everything that is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How the process was started."""

    namespace: str
    identity: str
    """The name under which it acts, which all replicas share."""
    pod_name: str
    """The name of this replica alone."""
    controllers: tuple[str, ...]
    observe: bool
    class_name: str | None
    """Worker pools of this class are handled."""
    default_class: bool
    """Worker pools without a class are handled."""
    scope: WorkerScope
    cluster: str | None
    """The cluster's name in AWS, by which its node groups are tagged; None where there are none."""
    interruption_queue: str | None
    """The URL of the queue that tells of instances about to go; None where there is none."""
    max_nodes: int | None
    """The most instances of all pools together; None: no limit."""
    max_cores: int | None
    """The most virtual processors of all pools together; None: no limit."""
    max_launches_per_minute: int | None
    expanders: tuple[Expander, ...]
    """How to choose among groups that fit."""
    prices: PriceList
    """What instances cost, where somebody has said so."""
    feature_gates: FeatureGates
    """What is switched off while it is new."""
    pods_ready_timeout_minutes: int
    """A job whose pods were not all ready this long after its admission gives its quota back."""
    sleeper_image: str
    """The image of pods that hold the room of machines."""
    api_servers: tuple[str, ...]
    """Further URLs of the cluster's own API server, which no worker pool may ask."""
    queue_access: QueueAccess
    """What worker pools of some namespaces may ask besides public hosts and their own Services."""
    allow_loopback_queues: bool
    """For development alone: worker pools may ask queues on this computer."""
    aws_endpoint: str | None
    """The endpoint to use instead of AWS's own; None: AWS's own."""
    aws_region: str | None
    """The region that AWS is asked in; None: each call says."""
    origin: credentials.Origin
    listen_host: str
    listen_port: int
    log_level: str
    terms: election.Terms

    @property
    def classes(self) -> tuple[str | None, ...]:
        """The classes of the worker pools that are handled; None is the default class."""
        default: tuple[str | None, ...] = (None,) if self.default_class else ()
        return default if self.class_name is None else (*default, self.class_name)


_FLAGS: Final[Mapping[str, str]] = {
    "namespace": "the runtime's own namespace, where its Leases are",
    "identity": "the name under which it acts; default: the host's name",
    "pod_name": "this replica's own name; default: the host's name",
    "controllers": "which controllers to run, with commas; * is all of them, -NAME leaves one out; "
    "default: * ({known})",
    "observe": "plan, tell, write nothing",
    "class_name": "handle worker pools of this class",
    "default_class": "handle worker pools without a class; default: true",
    "scope": f"whose worker pools to handle: {' or '.join(WorkerScope)}; default: namespace",
    "cluster": "the cluster's name in AWS, which tags its node groups",
    "interruption_queue": "URL of the queue with spot notices and failed launches",
    "max_nodes": "the most instances of all pools together",
    "max_cores": "the most processors of all pools together",
    "max_launches_per_minute": "the most instances asked for within a minute",
    "expanders": f"how to choose among groups that fit, with commas: {', '.join(Expander)}; "
    f"default: {','.join(EXPANDERS)}",
    "prices": "what instances cost, as `python -m components scaling` writes it under prices",
    "feature_gates": f"what to switch on or off while it is new, with commas; default: {FeatureGates().to_text()}",
    "pods_ready_timeout_minutes": "how long after its admission a queued job's pods must be ready, or it gives its "
    f"quota back; default: {queued_jobs.PODS_READY_TIMEOUT_MINUTES}",
    "sleeper_image": f"the image of pods that hold the room of machines; default: {sleepers.IMAGE}",
    "api_servers": "more URLs of the cluster's own API server, with commas; no worker pool may ask it",
    "queue_access": "what worker pools may ask besides public hosts and Services of their own namespace, as JSON: "
    '{{"NAMESPACE": {{"hosts": [...], "cidrs": [...], "namespaces": [...]}}}}',
    "allow_loopback_queues": "for development only: let worker pools ask queues on this computer",
    "kubeconfig": "default: the pod's ServiceAccount",
    "context": "the context in the kubeconfig; default: its current one",
    "listen": "where health and metrics are served; default: 0.0.0.0:8080",
    "log_level": f"one of {', '.join(LOG_LEVELS)}; default: info",
    "lease_seconds": "how long a Lease is good for; default: 15",
}
"""What each flag of `run` is for."""
_SWITCHES: Final = frozenset({"observe", "allow_loopback_queues"})


def add_arguments(parser: argparse.ArgumentParser, known: Sequence[str]) -> None:
    """Add the flags of `run`, each with the environment variable behind it."""
    for name, text in _FLAGS.items():
        variable = KUBECONFIG if name == "kubeconfig" else f"{PREFIX}{name.upper()}"
        told = f"{text.format(known=', '.join(known) or 'none')} [{variable}]"
        if name in _SWITCHES:
            parser.add_argument(_flag_of(name), action="store_true", default=None, help=told)
        elif name == "default_class":
            parser.add_argument(_flag_of(name), action=argparse.BooleanOptionalAction, help=told)
        else:
            parser.add_argument(_flag_of(name), help=told)


def read(arguments: argparse.Namespace, known: Sequence[str], environment: Mapping[str, str] | None = None) -> Settings:
    """Read flags, then environment, then defaults; raise SettingsError with everything that is wrong."""
    return _Reader(arguments, os.environ if environment is None else environment).read(known)


def read_origin(arguments: argparse.Namespace, environment: Mapping[str, str] | None = None) -> credentials.Origin:
    """Read who we are to the API server, for commands that need nothing else."""
    return _Reader(arguments, os.environ if environment is None else environment).read_origin()


class _Reader:
    def __init__(self, arguments: argparse.Namespace, environment: Mapping[str, str]) -> None:
        self._arguments = arguments
        self._environment = environment
        self._problems: list[str] = []

    def read(self, known: Sequence[str]) -> Settings:
        host, port = self._listen()
        settings = Settings(
            namespace=self._namespace(),
            identity=self._text("identity") or socket.gethostname(),
            pod_name=self._text("pod_name") or socket.gethostname(),
            controllers=self._controllers(known),
            observe=self._flag("observe", default=False),
            class_name=self._class_name(),
            default_class=self._flag("default_class", default=True),
            scope=WorkerScope(self._one_of("scope", list(WorkerScope), default=WorkerScope.NAMESPACE)),
            cluster=self._matching("cluster", _CLUSTER, "cannot be the name of a cluster"),
            interruption_queue=self._matching("interruption_queue", _QUEUE, "must be the URL of a queue"),
            max_nodes=self._number("max_nodes"),
            max_cores=self._number("max_cores"),
            max_launches_per_minute=self._number("max_launches_per_minute"),
            expanders=self._expanders(),
            prices=self._json("prices", PriceList),
            feature_gates=self._feature_gates(),
            pods_ready_timeout_minutes=self._between(
                "pods_ready_timeout_minutes",
                1,
                queued_jobs.PODS_READY_TIMEOUT_MAX,
                default=queued_jobs.PODS_READY_TIMEOUT_MINUTES,
            ),
            sleeper_image=self._matching("sleeper_image", _IMAGE, "cannot be the name of an image") or sleepers.IMAGE,
            api_servers=self._api_servers(),
            queue_access=self._json("queue_access", QueueAccess),
            allow_loopback_queues=self._flag("allow_loopback_queues", default=False),
            aws_endpoint=self._aws_endpoint(),
            aws_region=self._environment.get("AWS_REGION") or None,
            origin=self._origin(),
            listen_host=host,
            listen_port=port,
            log_level=self._one_of("log_level", LOG_LEVELS, default="info"),
            terms=election.Terms.of(self._between("lease_seconds", 2, 300, default=15)),
        )
        if settings.class_name is None and not settings.default_class:
            self._problems.append("--class-name: must be given with --no-default-class, or no pool would be handled")
        return self._unless_wrong(settings)

    def read_origin(self) -> credentials.Origin:
        return self._unless_wrong(self._origin())

    def _unless_wrong(self, given: G) -> G:
        if self._problems:
            raise SettingsError("\n".join(self._problems))
        return given

    def _text(self, name: str, variable: str | None = None) -> str | None:
        given: str | None = getattr(self._arguments, name)
        return given or self._environment.get(variable or f"{PREFIX}{name.upper()}") or None

    def _matching(self, name: str, pattern: re.Pattern[str], complaint: str) -> str | None:
        text = self._text(name)
        if text is not None and not pattern.fullmatch(text):
            self._problems.append(f"{_flag_of(name)}: {text!r} {complaint}")
        return text

    def _number(self, name: str) -> int | None:
        text = self._text(name)
        if text is not None and not _is_number(text):
            self._problems.append(f"{_flag_of(name)}: {text!r} must be a whole number")
            return None
        return None if text is None else int(text)

    def _expanders(self) -> tuple[Expander, ...]:
        text = self._text("expanders")
        if text is None:
            return EXPANDERS
        asked = [name.strip() for name in text.split(",")]
        if not set(asked) <= set(Expander) or len(set(asked)) < len(asked):
            self._problems.append(f"--expanders: {text!r} must be some of {', '.join(Expander)}, each once")
            return EXPANDERS
        return tuple(map(Expander, asked))

    def _json(self, name: str, model: type[M]) -> M:
        try:
            return model.model_validate_json(self._text(name) or "{}")
        except pydantic.ValidationError as error:
            self._problems.append(f"{_flag_of(name)}: {_first(error)}")
            return model()

    def _feature_gates(self) -> FeatureGates:
        try:
            return FeatureGates.parse(self._text("feature_gates") or "")
        except ValueError as error:
            self._problems.append(f"--feature-gates: {error}")
            return FeatureGates()

    def _between(self, name: str, least: int, most: int, *, default: int) -> int:
        text = self._text(name) or str(default)
        if not _is_number(text) or not least <= int(text) <= most:
            self._problems.append(f"{_flag_of(name)}: {text!r} must be a whole number from {least} to {most}")
            return default
        return int(text)

    def _class_name(self) -> str | None:
        text = self._text("class_name")
        try:
            _OPTIONAL_CLASS.validate_python(text)
        except pydantic.ValidationError:
            self._problems.append(f"--class-name: {text!r} cannot be the name of a class")
        return text

    def _api_servers(self) -> tuple[str, ...]:
        urls = [url.strip() for url in (self._text("api_servers") or "").split(",")]
        given = tuple(url for url in urls if url)
        self._problems.extend(f"--api-servers: {url!r} {_NO_URL}" for url in given if not _is_url(url))
        return given

    def _aws_endpoint(self) -> str | None:
        url = self._environment.get("AWS_ENDPOINT_URL") or None
        if url is not None and not _is_url(url):
            self._problems.append(f"AWS_ENDPOINT_URL: {url!r} {_NO_URL}")
        return url

    def _flag(self, name: str, *, default: bool) -> bool:
        given: bool | None = getattr(self._arguments, name)
        if given is not None:
            return given
        text = self._environment.get(f"{PREFIX}{name.upper()}", str(default)).lower()
        if text not in {"true", "false"}:
            self._problems.append(f"{PREFIX}{name.upper()}: {text!r} must be true or false")
        return text == "true"

    def _namespace(self) -> str:
        namespace = self._text("namespace") or ""
        if not namespace:
            self._problems.append(f"--namespace or {PREFIX}NAMESPACE: the runtime's own namespace must be given")
        elif not _NAMESPACE.fullmatch(namespace):
            self._problems.append(f"--namespace: {namespace!r} cannot be the name of a namespace")
        return namespace

    def _controllers(self, known: Sequence[str]) -> tuple[str, ...]:
        """Choose among the controllers of this version; any that Sluice ever has may be left out."""
        text = self._text("controllers")
        if text is None:
            return tuple(known)
        asked = [name.strip() for name in text.split(",") if name.strip()]
        without = {name.removeprefix("-") for name in asked if name.startswith("-")}
        wanted = {name for name in asked if not name.startswith("-")}
        self._check_controllers(wanted, without, known)
        return tuple(name for name in known if name not in without and (ALL in wanted or name in wanted))

    def _check_controllers(self, wanted: set[str], without: set[str], known: Sequence[str]) -> None:
        if not wanted:
            self._problems.append("--controllers: names at least one, or *, or is left out")
        unknown = sorted({*(wanted - {ALL, *known}), *(without - {*CONTROLLERS, *known})})
        if unknown:
            self._problems.append(f"--controllers: {', '.join(unknown)} not among {', '.join(known) or '(none)'}")
        if both := sorted(wanted & without):
            self._problems.append(f"--controllers: {', '.join(both)} cannot be both chosen and left out")

    def _one_of(self, name: str, choices: Sequence[str], *, default: str) -> str:
        text = self._text(name) or default
        if text not in choices:
            self._problems.append(f"{_flag_of(name)}: {text!r} must be {' or '.join(choices)}")
            return default
        return text

    def _origin(self) -> credentials.Origin:
        kubeconfig = self._text("kubeconfig", KUBECONFIG)
        if kubeconfig is not None:
            return credentials.KubeConfig(path=Path(kubeconfig), context=self._text("context"))
        host = self._environment.get("KUBERNETES_SERVICE_HOST")
        port = self._environment.get("KUBERNETES_SERVICE_PORT", "443")
        if not host:
            self._problems.append("--kubeconfig: must be given outside a pod (KUBERNETES_SERVICE_HOST is not set)")
        if not _is_number(port):
            self._problems.append(f"KUBERNETES_SERVICE_PORT: {port!r} is not a port")
        directory = Path(self._environment.get(f"{PREFIX}TOKEN_DIRECTORY", str(SERVICE_ACCOUNT)))
        return credentials.InCluster(host=host or "", port=int(port) if _is_number(port) else 0, directory=directory)

    def _listen(self) -> tuple[str, int]:
        text = self._text("listen") or "0.0.0.0:8080"
        host, _, port = text.rpartition(":")
        if not host or not _is_number(port) or int(port) > 65535:
            self._problems.append(f"--listen: {text!r} must be HOST:PORT")
            return "", 0
        return host.strip("[]"), int(port)


def _first(error: pydantic.ValidationError) -> str:
    """Say where the first thing is that is wrong, and what."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc'])) or 'the whole'}: {first['msg']}"


def _flag_of(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _is_url(text: str) -> bool:
    try:
        parts = parse.urlsplit(text)
        has_server = bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and has_server and text.isprintable() and " " not in text


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()
