"""A build is found when it is whole, shows progress, and explains its failure."""

import dataclasses
import fcntl
import threading
from pathlib import Path

import pytest

from tests.tools.toolchain import fakes
from tools.toolchain import building, finding, locking, products

KWOK = next(product for product in products.PRODUCTS if product.name == "kwok")
# Answers `version`, `list` and `build -o FILE …` as go does, and remembers each call.
FAKE_GO = """
echo "$1 GOFLAGS=$GOFLAGS" >>{root}/calls
case $1 in
version) echo go version go1.26.8 linux/amd64 ;;
list)
    case $2 in -m) echo {root}/module; exit ;; esac
    echo 'go: downloading example.org/one v1.0.0' >&2; echo example.org/one; echo example.org/two ;;
build)
    {before}
    while [ "$1" != -o ]; do shift; done
    printf '#!/bin/sh\\necho kwok version v{version}\\n' >"$2"; chmod +x "$2" ;;
esac
"""


def fake_go(root: Path, *, version: str | None = None, before: str = "") -> dict[str, str]:
    """Put a go on PATH whose programs report a version, the right one unless told."""
    lines = FAKE_GO.format(root=root, version=version or fakes.pinned("kwok"), before=before)
    fakes.script(root / "bin", "go", lines)
    return fakes.environment(root, PATH=f"{root / 'bin'}:/usr/bin:/bin")


def calls(root: Path) -> list[str]:
    return [line.split()[0] for line in (root / "calls").read_text().splitlines()]


def test_a_product_is_built_once(tmp_path: Path) -> None:
    environment = fake_go(tmp_path)
    directory = building.build(KWOK, environment, print)
    assert building.build(KWOK, environment, print) == directory
    assert calls(tmp_path) == ["version", "list", "build"]
    assert finding.search("kwok", environment).chosen == finding.Candidate(path=directory / "kwok", origin="built")


def test_definitions_are_those_of_the_module_that_was_built(tmp_path: Path) -> None:
    product = dataclasses.replace(KWOK, definitions=("config/things.yaml",))
    (tmp_path / "module" / "config").mkdir(parents=True)
    (tmp_path / "module" / "config" / "things.yaml").write_text("kind: CustomResourceDefinition")
    environment = fake_go(tmp_path)
    building.build(product, environment, print)
    assert [file.read_text() for file in finding.definitions(product, environment)] == [
        "kind: CustomResourceDefinition"
    ]


def test_a_program_that_cannot_be_asked_for_its_version_is_trusted_if_we_built_it(tmp_path: Path) -> None:
    silent = dataclasses.replace(KWOK.programs[0], version_arguments=())
    product = dataclasses.replace(KWOK, programs=(silent,))
    directory = building.build(product, fake_go(tmp_path, version="0.0.1"), print)
    assert building.is_complete(directory, product)


def test_a_failed_build_leaves_nothing_and_says_what_go_said_and_what_to_do(tmp_path: Path) -> None:
    environment = fake_go(tmp_path, before="echo example.org/one >&2; echo 'one.go:1: syntax error' >&2; exit 2")
    with pytest.raises(building.BuildError) as raised:
        building.build(KWOK, environment, print)
    message = str(raised.value)
    assert "in tools/kwok ended with 2 after 1 of 2 packages compiled" in message
    assert "one.go:1: syntax error" in message
    assert "run the same command again" in message
    assert [path.name for path in (tmp_path / "cache" / "tools").iterdir() if path.is_dir()] == []
    assert finding.search("kwok", environment).chosen is None


def test_a_program_that_reports_another_version_is_never_cached(tmp_path: Path) -> None:
    environment = fake_go(tmp_path, version="0.0.1")
    with pytest.raises(building.BuildError, match=r"kwok was built, but is version 0\.0\.1"):
        building.build(KWOK, environment, print)
    assert finding.search("kwok", environment).chosen is None


def test_what_a_killed_build_left_is_swept_away(tmp_path: Path) -> None:
    environment = fake_go(tmp_path)
    target = finding.binary_directory(fakes.recipe("kwok"), environment).parent
    unfinished = target.parent / f".{target.name}.abc"
    (unfinished / "bin").mkdir(parents=True)
    (target / "bin").mkdir(parents=True)  # as if somebody had deleted the program from the cache
    building.build(KWOK, environment, print)
    assert not unfinished.exists()
    assert building.is_complete(target / "bin", KWOK)


def test_a_second_build_waits_for_the_first_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locking, "PROGRESS_SECONDS", 0.01)
    environment = fake_go(tmp_path)
    target = finding.binary_directory(fakes.recipe("kwok"), environment).parent
    target.parent.mkdir(parents=True)
    said: list[str] = []
    waits = threading.Event()

    def say(text: str) -> None:
        said.append(text)
        waits.set()

    with target.with_suffix(".lock").open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        second = threading.Thread(target=building.build, args=(KWOK, environment, say))
        second.start()
        assert waits.wait(timeout=10)
        assert not target.exists()
    second.join(timeout=10)
    assert said[0].startswith("kwok: another process is at it; waiting")
    assert building.is_complete(target / "bin", KWOK)


def test_progress_counts_packages_and_modules_and_keeps_the_rest() -> None:
    output = building.GoOutput(packages=frozenset({"a/b", "c"}))
    for line in ("a/b\n", "go: downloading x v1\n", "# c\n", "c.go:1: bad\n", "\n"):
        output.read(line)
    assert output.progress() == "1 of 2 packages compiled"
    assert list(output.remarks) == ["# c", "c.go:1: bad"]
    assert output.modules == 1


def test_a_slow_build_says_every_few_seconds_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locking, "PROGRESS_SECONDS", 0.05)
    said: list[str] = []
    building.build(KWOK, fake_go(tmp_path, before="echo example.org/two >&2; sleep 0.3"), said.append)
    assert "kwok: 1 of 2 packages compiled, 0 s" in said
