"""The documents made from the models are those in the repository, and say of every key what it is."""

import json
import re
from pathlib import Path

import pytest
import yaml

from components.config import reading, reference

ROOT = Path(__file__).parent.parent.parent.parent


def test_the_documents_are_up_to_date() -> None:
    assert (ROOT / "stacks/schema.json").read_text() == reference.editors_schema(), "run `make schema`"
    assert (ROOT / "docs/stack-config.md").read_text() == reference.page(), "run `make schema`"


def test_every_key_has_a_meaning() -> None:
    rows = [line for line in reference.page().splitlines() if line.startswith("| `")]
    silent = [row for row in rows if row.rstrip("| ").endswith("`") or row.split(" | ")[-1].strip(" |") == ""]
    assert len(rows) > 150
    assert silent == []


def test_the_editors_schema_refuses_unknown_keys_everywhere() -> None:
    schema = json.loads(reference.editors_schema())
    objects = [one for one in schema["$defs"].values() if "properties" in one]
    assert objects
    assert all(one["additionalProperties"] is False for one in objects)


@pytest.mark.parametrize("stack", ["local", "dev", "prod"])
def test_the_stacks_use_keys_of_the_schema_only(stack: str) -> None:
    known = json.loads(reference.editors_schema())["properties"]["config"]["properties"]
    config = yaml.safe_load((ROOT / f"stacks/Pulumi.{stack}.yaml").read_text())["config"]
    assert {key for key in config if not key.startswith("pulumi:")} <= set(known)
    assert set(reading.json_schema()["properties"]) == {
        re.sub("^sluice:", "", key) for key in known if key.startswith("sluice:") and key != "sluice:secrets"
    }
