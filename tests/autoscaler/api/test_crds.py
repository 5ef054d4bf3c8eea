"""What holds for every definition: bounded, described, with a status nobody defaults, and names that do not clash."""

from collections import Counter
from collections.abc import Iterator

import pytest

from autoscaler.api import crds, keys, schema, version
from autoscaler.api.manifests import Manifest

ALL = crds.all_crds()


def object_schema(crd: Manifest) -> schema.Schema:
    whole: schema.Schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return whole


def walk(node: schema.Schema, path: str) -> Iterator[tuple[str, schema.Schema]]:
    yield path, node
    for name, child in node.get("properties", {}).items():
        yield from walk(child, f"{path}.{name}")
    for key, suffix in (("items", "[]"), ("additionalProperties", "{}")):
        if key in node:
            yield from walk(node[key], f"{path}{suffix}")


def parts(crd: Manifest) -> Iterator[tuple[str, schema.Schema]]:
    for part in ("spec", "status"):
        if part in object_schema(crd)["properties"]:
            yield from walk(object_schema(crd)["properties"][part], f"{crd['spec']['names']['kind']}.{part}")


@pytest.fixture(params=ALL, ids=crds.names())
def crd(request: pytest.FixtureRequest) -> Manifest:
    manifest: Manifest = request.param
    return manifest


def test_there_are_eleven_kinds() -> None:
    assert len(ALL) == 11


def test_every_field_is_described(crd: Manifest) -> None:
    fields = [(path, node) for path, node in parts(crd) if not path.endswith(("[]", "{}"))]
    assert [path for path, node in fields if not node.get("description", "").strip()] == []


def test_every_string_list_and_map_is_bounded(crd: Manifest) -> None:
    unbounded = [path for path, node in parts(crd) if not _bounded(node)]
    assert unbounded == []


def _bounded(node: schema.Schema) -> bool:
    match node.get("type"):
        case "string":
            return "maxLength" in node or "enum" in node or node.get("format") == "date-time"
        case "array":
            return "maxItems" in node
        case "object":
            return (
                "properties" in node
                or "maxProperties" in node
                or bool(node.get("x-kubernetes-preserve-unknown-fields"))
            )
        case _:
            return True


def test_every_array_says_how_it_merges_or_is_replaced_whole(crd: Manifest) -> None:
    for path, node in parts(crd):
        if node.get("x-kubernetes-list-type") == "map":
            required = node["items"]["required"]
            assert set(node["x-kubernetes-list-map-keys"]) <= set(required), path


def test_every_rule_has_a_message(crd: Manifest) -> None:
    rules = [rule for _, node in walk(object_schema(crd), "") for rule in node.get("x-kubernetes-validations", ())]
    assert [rule for rule in rules if not rule.get("message")] == []


def test_status_is_a_subresource_without_defaults(crd: Manifest) -> None:
    whole = object_schema(crd)
    if "status" in whole["properties"]:
        assert crd["spec"]["versions"][0]["subresources"]["status"] == {}
        assert [path for path, node in walk(whole["properties"]["status"], "") if "default" in node] == []


def test_every_kind_has_a_status() -> None:
    assert [crd["spec"]["names"]["kind"] for crd in ALL if "status" not in object_schema(crd)["properties"]] == []


def test_names_do_not_clash() -> None:
    names = Counter(
        name
        for crd in ALL
        for name in (
            crd["spec"]["names"]["plural"],
            crd["spec"]["names"]["singular"],
            *crd["spec"]["names"].get("shortNames", ()),
        )
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_every_definition_carries_the_version_and_the_category(crd: Manifest) -> None:
    assert crd["metadata"]["labels"][keys.VERSION] == version.VERSION
    assert crd["spec"]["names"]["categories"] == [crds.CATEGORY]


def test_two_runs_make_the_same_definitions() -> None:
    assert crds.all_crds() == ALL


@pytest.mark.accept("S2")
def test_nothing_is_said_that_the_server_drops(crd: Manifest) -> None:
    assert [path for path in empties(crd) if not path.endswith((".subresources.status", ".default"))] == []


def empties(value: object, path: str = "") -> Iterator[str]:
    """Name everything that is there and holds nothing."""
    if value in ([], {}, "", None):
        yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, child in children:
        yield from empties(child, f"{path}.{name}")
