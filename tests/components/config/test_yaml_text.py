"""A stack's file that no program could use is refused with its place, never with a traceback, never with a value."""

from pathlib import Path

import pytest

from components.config import problems, reading, yaml_text

pytestmark = pytest.mark.accept("S3")


def refusal(tmp_path: Path, content: str | bytes) -> str:
    file = tmp_path / "Pulumi.test.yaml"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(problems.ConfigError) as caught:
        reading.of_file(file)
    return str(caught.value)


@pytest.mark.parametrize(
    ("content", "want"),
    [
        ("config: [", "the file: is wrong at line 1, column 10: "),
        ("config:\n\ta: 1", "the file: is wrong at line 2, column 1: "),
        ("config: \x07", "the file: is no YAML: "),
        ("a: 1\n---\nb: 2", "the file: is wrong at line 2, column 1: "),
        ("config: !thing 5", "the file: is wrong at line 1, column 9: "),
        ("config: *nobody", "the file: is wrong at line 1, column 9: "),
        ("config: {a: 1, b: {c: 1, c: 2}}", "column 26: the key c is there twice"),
        ("config:\n  ? [a]\n  : b", "the file: is wrong at line 2"),
        (b"config:\n  a: \xff", "the file: line 2 is no UTF-8"),
        ("config: " + "[" * 5000 + "]" * 5000, "the file: has maps or lists too deep"),
        ("config: {a: 2020-13-45}", "the file: has a number or a date that nobody can read"),
        ("config: {sluice:x: &a [*a]}", "too deep: more than 64 maps or lists in each other, or an anchor"),
        ("config: {sluice:x: 2020-01-01}", "sluice:x: is read as a date: must be text; put it in quotes"),
        ("config: {sluice:x: {y: 2020-01-01 10:00:00}}", "sluice:x.y: is read as a date"),
        ("config: {sluice:x: !!set {a}}", "sluice:x: is read as a set"),
        ("config: {sluice:x: !!binary aGk=}", "sluice:x: is read as bytes"),
        ("config: {sluice:x: [.inf]}", "sluice:x[0]: must be a number that ends"),
        ("config: {sluice:x: {true: 1}}", "sluice:x.True: the name must be text; put it in quotes"),
        ("config: {5: a}", "5: the name must be text; put it in quotes"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_its_place(tmp_path: Path, content: str | bytes, want: str) -> None:
    assert want in refusal(tmp_path, content)


def test_anchors_that_multiply_each_other_are_refused(tmp_path: Path) -> None:
    lines = ["  a0: &a0 [x]", *(f"  a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12))]
    assert "has more than 200000 values" in refusal(tmp_path, "\n".join(["config:", *lines]))


def test_keys_that_an_anchor_gives_may_be_given_again(tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.test.yaml"
    file.write_text("base: &base {a: 1, b: 2}\nconfig: {'sluice:x': {<<: *base, a: 3}}")
    assert reading.of_file(file).values == {"x": {"a": 3, "b": 2}}


@pytest.mark.accept("S10")
def test_a_secret_in_plain_text_is_refused_and_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.test.yaml"
    file.write_text("config: {'sluice:secrets': {a: hunter2, b: {secure: v1:abc}}}")
    examined = reading.examine(reading.of_file(file))
    told = [problems.told(one) for one in examined.problems if one.path[0] == "secrets"]
    assert len(told) == 1
    assert told[0].startswith("sluice:secrets.a: must be encrypted text")
    assert "hunter2" not in told[0]


@pytest.mark.parametrize(
    ("written", "want"),
    [
        ("yes", "yes"),
        ("no", "no"),
        ("on", "on"),
        ("True", True),
        ("false", False),
        ("1:30", "1:30"),
        ("1:30.5", "1:30.5"),
        ("010", 8),
        ("0o10", 8),
        ("0x10", 16),
        ("6_00", 600),
        ("-5", -5),
        ("0", 0),
        ("1.5", 1.5),
        ("~", None),
    ],
)
def test_a_file_is_read_as_pulumi_reads_it(tmp_path: Path, written: str, want: object) -> None:
    """As `pulumi config --json` shows such a file: yes is a text there, and 1:30 no number."""
    file = tmp_path / "Pulumi.a.yaml"
    file.write_text(f"a: {written}\n")
    found = yaml_text.read(file)["a"]
    assert (type(found), found) == (type(want), want)
