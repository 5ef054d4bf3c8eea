"""The only reader of stack config: from the running Pulumi program, or from a stack's file without the engine.

Both give the same `Stack`, or one ConfigError with everything that is wrong. Secrets are one flat map, sluice:secrets;
everything else refers to them by name, because a structured value would lose its secrecy without a warning.
"""

import functools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import pulumi
import yaml
from pydantic import ValidationError

from components.config import problems
from components.config.base import Location, Problem, absent
from components.config.clusters import NAME_MAX, Cluster
from components.config.stack import REGION, StackConfig

PREFIX: Final = f"{problems.NAMESPACE}:"
SECRETS: Final = "secrets"
_TEXT: Final = frozenset({"accountId"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """A stack: its name, where it lives, and its config."""

    name: str
    region: str
    config: StackConfig

    @property
    def partition(self) -> str:
        """The part of AWS that its region belongs to, as ARNs name it."""
        if self.region.startswith("cn-"):
            return "aws-cn"
        return "aws-us-gov" if self.region.startswith("us-gov-") else "aws"

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
    """Keys of `values` that hold a secret."""

    @classmethod
    def of(cls, stack: str, config: Mapping[str, Any], secret_keys: frozenset[str]) -> Self:
        """Take what concerns us out of all config."""
        ours = {key.removeprefix(PREFIX): value for key, value in config.items() if key.startswith(PREFIX)}
        secrets = _parsed(SECRETS, ours.pop(SECRETS, {}))
        return cls(
            stack=stack,
            region=config.get("aws:region"),
            values={key: _parsed(key, value) for key, value in ours.items()},
            secrets=frozenset(secrets) if isinstance(secrets, Mapping) else frozenset(),
            secret_keys=frozenset(key.removeprefix(PREFIX) for key in secret_keys if key.removeprefix(PREFIX) in ours),
        )


def of_program() -> Raw:
    """Read the config of the running Pulumi program."""
    environment = pulumi.runtime.config.get_config_env()
    config = {**environment, **pulumi.runtime.config.CONFIG.get()}
    listed = {*pulumi.runtime.config.get_config_secret_keys_env(), *pulumi.runtime.config._SECRET_KEYS.get()}  # noqa: SLF001  # the SDK lists secret keys nowhere else
    return Raw.of(pulumi.get_stack(), config, frozenset(listed))


def of_file(path: Path) -> Raw:
    """Read a stack's file, without the engine and without its secrets' values."""
    name = path.name.removeprefix("Pulumi.").removesuffix(".yaml")
    found = yaml.safe_load(path.read_text()) or {}
    config = found.get("config", {}) if isinstance(found, Mapping) else {}
    config = config if isinstance(config, Mapping) else {}
    return Raw.of(name, config, frozenset(key for key, value in config.items() if _holds_secret(value)))


def secret(name: str) -> pulumi.Output[str]:
    """Return a value of sluice:secrets, which Pulumi keeps encrypted wherever it goes."""
    values = _parsed(SECRETS, of_program_value(SECRETS))
    return pulumi.Output.secret(values[name])


def of_program_value(key: str) -> Any:  # noqa: ANN401  # whatever stands there
    """Return one value of the running program's config as it stands."""
    return pulumi.runtime.config.get_config(f"{PREFIX}{key}")


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
    found = [*_outside(raw), *problems.unknown_keys(raw.values, json_schema())]
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
    except ValueError:
        return value


def _holds_secret(value: object) -> bool:
    if isinstance(value, Mapping):
        return set(value) == {"secure"} or any(_holds_secret(one) for one in value.values())
    return isinstance(value, list) and any(_holds_secret(one) for one in value)


def _outside(raw: Raw) -> list[Problem]:
    """Check what lies outside the models: the region, and secrets where there must be none."""
    found = [
        absent(key, message="must not hold secrets: put them into sluice:secrets and give their names here")
        for key in sorted(raw.secret_keys)
    ]
    if not isinstance(raw.region, str):
        found.append(absent("aws:region", message="must be given, such as eu-west-1"))
    elif not re.fullmatch(REGION, raw.region):
        found.append(Problem(path=("aws:region",), value=raw.region, message="must be a region such as eu-west-1"))
    return found


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
        owner = owners.setdefault(name, key)
        if owner != key:
            found.append(Problem(path=("clusters", key, "name"), value=name, message=f"is cluster {owner}'s name too"))
    return found


def _secrets(raw: Raw, config: StackConfig) -> list[Problem]:
    wanted: dict[Location, str | None] = {}
    for key, cluster in config.clusters.items():
        if cluster.existing is not None:
            wanted["clusters", key, "existing", "kubeconfig"] = cluster.existing.kubeconfig
        for index, one in enumerate(cluster.autoscaler.image_pull_secrets):
            wanted["clusters", key, "autoscaler", "imagePullSecrets", index, "value"] = one.value
    known = ", ".join(sorted(raw.secrets)) or "none"
    return [
        Problem(path=path, value=name, message=f"must be a key of sluice:secrets; there are {known}")
        for path, name in wanted.items()
        if name is not None and name not in raw.secrets
    ]
