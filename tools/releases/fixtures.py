"""The files of one recorded release: definitions, admission policies, states of stacks, and what the states came from.

They are read by tests and written by `python -m tools.releases`; nobody changes them by hand.
"""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

REPOSITORY: Final = Path(__file__).parent.parent.parent
RELEASES: Final = REPOSITORY / "tests" / "fixtures" / "releases"
STACKS: Final = ("local", "dev")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Where a release was recorded."""

    directory: Path

    @property
    def version(self) -> str:
        return self.directory.name

    @property
    def definitions_file(self) -> Path:
        return self.directory / "definitions.yaml"

    @property
    def policies_file(self) -> Path:
        return self.directory / "policies.yaml"

    def stack_file(self, stack: str) -> Path:
        return self.directory / f"Pulumi.{stack}.yaml"

    def state_file(self, stack: str) -> Path:
        return self.directory / f"state.{stack}.json"

    def definitions(self) -> list[dict[str, Any]]:
        """Return the custom resource definitions that the release printed."""
        return list(yaml.safe_load_all(self.definitions_file.read_text()))

    def policies(self) -> list[dict[str, Any]]:
        """Return the admission policies that the release printed."""
        return list(yaml.safe_load_all(self.policies_file.read_text()))

    def stack(self, name: str) -> dict[str, Any]:
        """Return the stack's file that the state was made from."""
        document: dict[str, Any] = yaml.safe_load(self.stack_file(name).read_text())
        return document

    def state(self, stack: str) -> dict[str, Any]:
        """Return what `pulumi stack import` takes."""
        document: dict[str, Any] = json.loads(self.state_file(stack).read_text())
        return document


def all_releases(directory: Path = RELEASES) -> tuple[Release, ...]:
    """Return every recorded release, the oldest first."""
    found = [Release(directory=path) for path in directory.iterdir() if path.is_dir()]
    return tuple(sorted(found, key=lambda release: [int(part) for part in release.version.split(".")]))


def latest(directory: Path = RELEASES) -> Release:
    """Return the newest recorded release."""
    return all_releases(directory)[-1]


def written_state(state: Mapping[str, Any]) -> str:
    """Write a state so that two recordings compare line by line, and small: no space that nobody reads."""
    deployment = state["deployment"]
    resources = ",\n".join(json.dumps(one, separators=(",", ":"), sort_keys=True) for one in deployment["resources"])
    rest = {name: value for name, value in deployment.items() if name != "resources"}
    head = json.dumps(rest, separators=(",", ":"), sort_keys=True)[:-1]
    separator = "," if rest else ""
    return f'{{"version":{state["version"]},"deployment":{head}{separator}"resources":[\n{resources}\n]}}}}\n'
