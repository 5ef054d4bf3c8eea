"""The part of CEL that our rules use. That they mean the same to the API server, test_custom_schemas shows."""

from typing import Any

import pytest

from autoscaler.api import crds
from autoscaler.simulation.cluster.schemas import cel

OBJECT = {"name": "pool-007", "n": 7, "items": [{"k": "a"}, {"k": "b"}, {"k": "a"}], "labels": {"x": "1"}}


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("1 + 2 == 3", True),
        ("true || false && false", True),
        ("!(self.n == 7)", False),
        ("self.n > 6 ? 'large' : 'small'", "large"),
        ("self.name.startsWith('pool') && !self.name.contains('.')", True),
        ("int(self.name.substring(size('pool') + 1)) == self.n", True),
        ("has(self.name) && !has(self.absent)", True),
        ("has(self.labels.x) != has(self.labels.y)", True),
        ("self.items.all(i, i.k in ['a', 'b'])", True),
        ("self.items.exists_one(i, i.k == 'b')", True),
        ("self.items.exists_one(i, i.k == 'a')", False),
        ("self.items.filter(i, i.k == 'a').map(i, i.k)", ["a", "a"]),
        ("self.labels.all(key, key.matches('^[a-z]$'))", True),
        ("'a=b'.split('=')[1]", "b"),
        (r"'it\'s'.size()", 4),
        ("quantity('1500m').compareTo(quantity('1')) > 0", True),
        ("isQuantity('fast')", False),
        ("url('https://host:1/path').getHost()", "host:1"),
        ("isURL('no address')", False),
        ("self.items[0].k", "a"),
    ],
)
def test_an_expression_has_its_value(text: str, want: Any) -> None:
    assert cel.evaluate(text, {"self": OBJECT}) == want


def test_what_stands_to_the_left_decides_alone_if_it_can() -> None:
    assert cel.evaluate("!has(self.absent) || self.absent.deep == 1", {"self": OBJECT})
    assert not cel.evaluate("has(self.absent) && self.absent.deep == 1", {"self": OBJECT})


@pytest.mark.parametrize("text", ["self.absent == 1", "self.name + 1", "self.items[9]", "other"])
def test_what_cannot_be_evaluated_is_an_error(text: str) -> None:
    with pytest.raises(cel.CelError):
        cel.evaluate(text, {"self": OBJECT})


@pytest.mark.parametrize(
    "text", ["", "1 +", "self.", "nope(1)", "self.nope()", "1 - 1", "a b", "self.all(1, true)", "*"]
)
def test_what_cannot_be_read_is_an_error(text: str) -> None:
    with pytest.raises(cel.CelError):
        cel.compiled(text)


def test_the_end_of_a_pattern_is_the_end_of_the_text() -> None:
    assert cel.pattern("^a$").search("a")
    assert not cel.pattern("^a$").search("a\n")
    assert cel.pattern(r"^a\$").search("a$")


def rules(schema: Any) -> list[str]:
    if isinstance(schema, list):
        return [rule for item in schema for rule in rules(item)]
    if not isinstance(schema, dict):
        return []
    own = [item[key] for item in schema.get("x-kubernetes-validations", ()) for key in item if "rule" in key.lower()]
    return [*own, *(rule for value in schema.values() for rule in rules(value))]


def test_every_rule_of_ours_can_be_read() -> None:
    found = [rule for definition in crds.all_crds() for rule in rules(definition)]
    assert len(found) > 30
    for rule in found:
        cel.compiled(rule)
