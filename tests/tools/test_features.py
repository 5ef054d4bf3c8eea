"""The list of promises is read from its tables, and says what has no test."""

from tools import features

TEXT = """
| id | promise | real |
|---|---|---|
| W5 | poolCapacity is 0 or more | real |
| W13 | the formula | |
"""


def test_promises_are_read_in_order() -> None:
    assert features.read_promises(TEXT) == {"W5": "poolCapacity is 0 or more", "W13": "the formula"}


def test_the_list_shows_tiers_and_counts_what_is_proven() -> None:
    proofs = [features.Proof(name="tests/a.py::test_x", tier="unit"), features.Proof(name="tests/b.py::y", tier="real")]
    text = features.render(
        [features.Feature(id="W5", tests=proofs), features.Feature(id="W13", tests=[])], features.read_promises(TEXT)
    )
    first, *_, last = text.splitlines()
    assert first.split()[:3] == ["W5", "real,", "unit"]
    assert last == "1 of 2 promises have a test"


def test_the_projects_own_list_is_complete() -> None:
    promises = features.read_promises(features.PROMISES.read_text(encoding="utf-8"))
    assert len(promises) >= 129
    assert {"S1", "W1", "M1", "G1", "P1", "E1", "R1"} <= promises.keys()
