"""The list of promises is read from its page, and says what has no test or is proven only in part."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tools import features

TEXT = """
| id | promise | real |
|---|---|---|
| W5 | poolCapacity is 0 or more | real |
| W13 | the formula | |
"""
SETTINGS = """
[tool.pytest.ini_options]
addopts = ["--import-mode=importlib"]
markers = ["accept", "real", "simulated"]
"""
PAGE = features.PROMISES.read_text(encoding="utf-8")
WHOLE = features.Proof(name="tests/a.py::test_x", tier="unit")
PART = features.Proof(name="tests/b.py::test_y", tier="real", part="the second half")


def claim(*ids: Any, **more: Any) -> pytest.Mark:
    decorator: pytest.MarkDecorator = pytest.mark.accept(*ids, **more)
    return decorator.mark


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


def test_a_promise_that_has_only_parts_is_shown_as_such_with_them() -> None:
    made = [features.feature("W5", [PART]), features.feature("W13", [PART, WHOLE])]
    assert [each.get("partial") for each in made] == [True, None]
    first, _, part, second, *_, last = features.render(made, features.read_promises(TEXT)).splitlines()
    assert "[in part] poolCapacity" in first
    assert part.split(maxsplit=1) == ["part:", "the second half"]
    assert "[in part]" not in second
    assert last == "2 of 2 promises have a test, 1 of them in part only"


def test_a_promise_without_a_test_is_not_even_partial() -> None:
    assert features.feature("W5", []) == features.Feature(id="W5", tests=[])


def test_tests_are_listed_by_name() -> None:
    assert features.feature("W5", [PART, WHOLE])["tests"] == [WHOLE, PART]


def test_a_marker_claims_promises_or_a_part_of_them() -> None:
    assert features.read_claim(claim("W5", "W13")) == (("W5", "W13"), None)
    assert features.read_claim(claim("W5", part="the second half")) == (("W5",), "the second half")


@pytest.mark.parametrize(
    ("marker", "want"),
    [
        (claim(), "names no promise"),
        (claim(part="all"), "names no promise"),
        (claim(5), "names no promise"),
        (claim("W5", part=""), "say in words"),
        (claim("W5", part="  "), "say in words"),
        (claim("W5", part=None), "say in words"),
        (claim("W5", part=("a",)), "say in words"),
        (claim("W5", parts="a"), "knows part alone"),
    ],
)
def test_a_marker_that_cannot_be_read_is_an_error(marker: pytest.Mark, want: str) -> None:
    with pytest.raises(features.ClaimError, match=want):
        features.read_claim(marker)


def listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], test: str
) -> tuple[int, str]:
    """Run the command on a project of one promise and one test."""
    folder = tmp_path / "tests"
    folder.mkdir()
    (folder / f"{tmp_path.name}.py").write_text(f"import pytest\n\n{test}")
    page = folder / "features.md"
    page.write_text(TEXT)
    (tmp_path / "pyproject.toml").write_text(SETTINGS)
    monkeypatch.setattr(features, "ROOT", tmp_path)
    monkeypatch.setattr(features, "PROMISES", page)
    code = features.main(["--format", "json"])
    return code, capsys.readouterr().out


@pytest.mark.parametrize(
    ("marks", "want"),
    [
        ('@pytest.mark.accept("W5")', {}),
        ('@pytest.mark.accept("W5", part="a")', {"part": "a"}),
        ('@pytest.mark.accept("W5", part="a")\n@pytest.mark.accept("W5", part="b")', {"part": "a; b"}),
        ('@pytest.mark.accept("W5", part="a")\n@pytest.mark.accept("W5")', {}),
    ],
)
def test_programs_are_told_each_test_with_its_tier_and_part(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    marks: str,
    want: dict[str, str],
) -> None:
    code, said = listed(tmp_path, monkeypatch, capsys, f"{marks}\n@pytest.mark.real\ndef test_it(): ...\n")
    assert code == 0
    first, second = json.loads(said)
    assert first.pop("tests") == [{"name": f"tests/{tmp_path.name}.py::test_it", "tier": "real", **want}]
    assert first == ({"id": "W5", "partial": True} if want else {"id": "W5"})
    assert second == {"id": "W13", "tests": []}


@pytest.mark.parametrize(
    ("marks", "want"),
    [
        ('@pytest.mark.accept("W6")', "does not list: W6"),
        ('@pytest.mark.accept("W5", part=" ")', "::test_it: accept('W5',) has the part ' '"),
    ],
)
def test_a_claim_that_nobody_can_check_ends_the_list(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    marks: str,
    want: str,
) -> None:
    code, said = listed(tmp_path, monkeypatch, capsys, f"{marks}\ndef test_it(): ...\n")
    assert code == 1
    assert want in said


def test_every_row_of_the_projects_page_is_a_promise_and_each_chapter_is_counted_through() -> None:
    """A row that is not read, or an id that is given twice or left out, would be a promise that nobody keeps."""
    promises = features.read_promises(PAGE)
    rows = [line.split("|")[1].strip() for line in _promise_rows()]
    assert rows == list(promises)
    for chapter in sorted({each[0] for each in promises}):
        numbers = [int(each[1:]) for each in promises if each[0] == chapter]
        assert numbers == list(range(1, len(numbers) + 1)), chapter
    assert re.findall(r"^## ([A-Z])\. ", PAGE, flags=re.MULTILINE) == list(dict.fromkeys(each[0] for each in promises))


def _promise_rows() -> list[str]:
    """Return the rows of the chapters' tables, read line by line."""
    chapters = PAGE[PAGE.index("\n## ") :].splitlines()
    return [line for line in chapters if line.startswith("|") and not line.startswith(("| id |", "|---"))]
