"""The only reader of stack config: from the running Pulumi program, or from a stack's file without the engine.

Both give the same `Stack`, or one ConfigError with everything that is wrong. Secrets are one flat map, sluice:secrets;
everything else refers to them by name, because a structured value would lose its secrecy without a warning.
"""

import functools
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Self

import pulumi
from pydantic import TypeAdapter, ValidationError

from components.config import namespaces, problems, yaml_text
from components.config.base import SECRET_NAME, Location, Problem, absent
from components.config.clusters import NAME_MAX, Cluster, ClusterName
from components.config.stack import REGION, StackConfig

PREFIX: Final = f"{problems.NAMESPACE}:"
SECRETS: Final = "secrets"
REGION_KEY: Final = namespaces.REGION_KEY
_TEXT: Final = frozenset({"accountId"})
_PARTITIONS: Final[Mapping[str, str]] = {
    "cn-": "aws-cn",
    "us-gov-": "aws-us-gov",
    "us-iso-": "aws-iso",
    "us-isob-": "aws-iso-b",
}
_CLUSTER_NAME: Final = TypeAdapter[str](ClusterName)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """A stack: its name, where it lives, and its config."""

    name: str
    region: str
    config: StackConfig

    @property
    def partition(self) -> str:
        """The part of AWS that its region belongs to, as ARNs name it."""
        return next((name for begin, name in _PARTITIONS.items() if self.region.startswith(begin)), "aws")

    def cluster_name(self, key: str) -> str:
        """Name a cluster in AWS."""
        return self.config.clusters[key].name_in(self.name, key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Raw:
    """Config as it was found: values by key, those of sluice without their prefix."""

    stack: str
    region: object
    values: Mapping[str, Any]
    secrets: frozenset[str]
    """The keys of sluice:secrets."""
    secret_keys: frozenset[str]
    """Keys of `values` that hold a secret, and aws:region if it is one."""
    faults: tuple[Problem, ...] = ()
    """What is wrong with sluice:secrets, and with keys of other namespaces."""
    is_acted_on: bool = False
    """Whether what it says is made now: `pulumi up`, not a preview or a check."""
    has_environment: bool = False
    """Whether more config comes from an environment of Pulumi, which only the engine reads."""

    @classmethod
    def of(cls, stack: str, config: Mapping[str, Any], secret_keys: frozenset[str], *, decrypted: bool = True) -> Self:
        """Take what concerns us out of all config; a file's secrets are not decrypted."""
        ours = {key.removeprefix(PREFIX): value for key, value in config.items() if key.startswith(PREFIX)}
        secrets = _parsed(SECRETS, ours.pop(SECRETS, {}))
        return cls(
            stack=stack,
            region=config.get(REGION_KEY),
            values={key: _parsed(key, value) for key, value in ours.items()},
            secrets=frozenset(secrets) if isinstance(secrets, Mapping) else frozenset(),
            secret_keys=frozenset(
                key.removeprefix(PREFIX) for key in secret_keys if key == REGION_KEY or key.removeprefix(PREFIX) in ours
            ),
            faults=(*_secret_faults(secrets, decrypted=decrypted), *namespaces.problems(config)),
        )

    def discreet(self, problem: Problem) -> Problem:
        """Tell of a problem within a secret where it is, and nothing of what stands there."""
        if not problem.path or problem.path[0] not in self.secret_keys:
            return problem
        if len(problem.path) == 1 and not problem.has_value:
            return problem
        return absent(*problem.path, message="is wrong too; it is not shown, since this key holds a secret")


def of_program() -> Raw:
    """Read the config of the running Pulumi program."""
    environment = pulumi.runtime.config.get_config_env()
    config = {**environment, **pulumi.runtime.config.CONFIG.get()}
    listed = {*pulumi.runtime.config.get_config_secret_keys_env(), *pulumi.runtime.config._SECRET_KEYS.get()}  # noqa: SLF001  # the SDK lists secret keys nowhere else
    raw = Raw.of(pulumi.get_stack(), config, frozenset(listed))
    return replace(raw, is_acted_on=not pulumi.runtime.is_dry_run())


def of_file(path: Path) -> Raw:
    """Read a stack's file, without the engine and without its secrets' values."""
    name = path.name.removeprefix("Pulumi.").removesuffix(".yaml")
    found = yaml_text.read(path) or {}
    config = found.get("config", {}) if isinstance(found, Mapping) else {}
    config = config if isinstance(config, Mapping) else {}
    if wrong := yaml_text.unfit(config):
        raise problems.ConfigError(wrong)
    config = {namespaces.whole(key): value for key, value in config.items()}
    hidden = frozenset(key for key, value in config.items() if _holds_secret(value))
    raw = Raw.of(name, config, hidden, decrypted=False)
    return replace(raw, has_environment=bool(isinstance(found, Mapping) and found.get("environment")))


def secret(name: str) -> pulumi.Output[str]:
    """Return a value of sluice:secrets, which Pulumi keeps encrypted wherever it goes."""
    values = _parsed(SECRETS, pulumi.runtime.config.get_config(f"{PREFIX}{SECRETS}"))
    return pulumi.Output.secret(values[name])


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """What could be read of a config, and what is wrong with it."""

    config: StackConfig | None
    """None where it cannot be read as a whole."""
    clusters: Mapping[str, Cluster]
    """The clusters that can be read on their own."""
    problems: tuple[Problem, ...]


def examine(raw: Raw) -> Examined:
    """Check a config by itself, as a whole and, where that fails, each cluster on its own."""
    found = [*_outside(raw), *raw.faults]
    if wrong := yaml_text.unfit(raw.values):
        return Examined(config=None, clusters={}, problems=(*found, *wrong))
    found += problems.unknown_keys(raw.values, json_schema())
    try:
        config = StackConfig.model_validate_json(json.dumps(raw.values), strict=True)
    except ValidationError as error:
        return Examined(config=None, clusters=_readable(raw), problems=(*found, *problems.of_pydantic(error)))
    found += [*_names(raw.stack, config), *_secrets(raw, config)]
    return Examined(config=config, clusters=config.clusters, problems=tuple(found))


@functools.cache
def json_schema() -> dict[str, Any]:
    """Describe the values under `sluice:` for editors, and for finding unknown keys."""
    return StackConfig.model_json_schema()


def _parsed(key: str, value: Any) -> Any:  # noqa: ANN401  # parsed YAML or JSON
    """Read what the engine hands over as text; a text that is no JSON stays a text."""
    if not isinstance(value, str) or key in _TEXT:
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _holds_secret(value: object) -> bool:
    if isinstance(value, Mapping):
        return set(value) == {"secure"} or any(_holds_secret(one) for one in value.values())
    return isinstance(value, list) and any(_holds_secret(one) for one in value)


def _outside(raw: Raw) -> list[Problem]:
    """Check what lies outside the models: the region, and secrets where there must be none."""
    found = [
        absent(key, message="must not hold secrets: put them into sluice:secrets and give their names here")
        for key in sorted(raw.secret_keys - {REGION_KEY})
    ]
    if REGION_KEY in raw.secret_keys:
        found.append(absent(REGION_KEY, message="must not be a secret: every ARN names the region"))
    elif not isinstance(raw.region, str):
        found.append(absent(REGION_KEY, message="must be given, such as eu-west-1"))
    elif not re.fullmatch(REGION, raw.region):
        found.append(Problem(path=(REGION_KEY,), value=raw.region, message="must be a region such as eu-west-1"))
    return found


def _secret_faults(secrets: object, *, decrypted: bool) -> Iterator[Problem]:
    """Demand a flat map of texts, encrypted in a file. No value is shown."""
    command = "`pulumi config set --secret --path 'sluice:secrets.NAME'`"
    if not isinstance(secrets, Mapping):
        yield absent(SECRETS, message=f"must be a map of secrets by name; set each with {command}")
        return
    for name, value in secrets.items():
        encrypted = isinstance(value, Mapping) and set(value) == {"secure"} and isinstance(value["secure"], str)
        if decrypted and not isinstance(value, str):
            yield absent(SECRETS, str(name), message="must be text")
        if not decrypted and not encrypted:
            yield absent(SECRETS, str(name), message=f"must be encrypted text, {{secure: …}}; set it with {command}")


def _readable(raw: Raw) -> dict[str, Cluster]:
    clusters = raw.values.get("clusters")
    readable = {}
    for key, value in clusters.items() if isinstance(clusters, Mapping) else ():
        try:
            readable[key] = Cluster.model_validate_json(json.dumps(value), strict=True)
        except ValidationError:
            continue  # reported with the whole
    return readable


def _names(stack: str, config: StackConfig) -> list[Problem]:
    found: list[Problem] = []
    owners: dict[str, str] = {}
    for key, cluster in config.clusters.items():
        name = cluster.name_in(stack, key)
        if len(name) > NAME_MAX:
            found.append(
                absent("clusters", key, "name", message=f"must be given: {name} has more than {NAME_MAX} characters")
            )
        elif not _is_cluster_name(name):
            message = f"must be given: {name}, made of the stack's name, has more than letters, digits, - and _"
            found.append(absent("clusters", key, "name", message=message))
        owner = owners.setdefault(name.lower().replace("_", "-"), key)
        if owner != key:
            message = f"is cluster {owner}'s name too: case, - and _ make no difference to the name of its images"
            found.append(Problem(path=("clusters", key, "name"), value=name, message=message))
    return found


def _is_cluster_name(name: str) -> bool:
    try:
        _CLUSTER_NAME.validate_python(name)
    except ValidationError:
        return False
    return True


def _secrets(raw: Raw, config: StackConfig) -> list[Problem]:
    wanted: dict[Location, str | None] = {}
    for key, cluster in config.clusters.items():
        if cluster.existing is not None:
            wanted["clusters", key, "existing", "kubeconfig"] = cluster.existing.kubeconfig
        for index, one in enumerate(cluster.autoscaler.image_pull_secrets):
            wanted["clusters", key, "autoscaler", "imagePullSecrets", index, "value"] = one.value
    known = ", ".join(sorted(raw.secrets)) or "none"
    return [
        absent(*path, message=f"{SECRET_NAME}; there are {known}")
        for path, name in wanted.items()
        if name is not None and name not in raw.secrets
    ]
