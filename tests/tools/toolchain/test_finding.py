"""Which binary is used, and why another one is not."""

import json
import os
from pathlib import Path

import pytest

from tests.tools.toolchain import fakes
from tools.toolchain import finding

ETCD = "etcd Version: 3.6.14\nGit SHA: Not provided\nGo Version: go1.26.8\nGo OS/Arch: linux/amd64\n"
KUBECTL = "Client Version: v1.36.4\nKustomize Version: v5.8.1\n"
KWOK = "kwok version v0.8.0 go1.26.8 (linux/amd64)\n"


@pytest.mark.parametrize(
    ("output", "wanted"),
    [
        (ETCD, "3.6.14"),
        (KUBECTL, "1.36.4"),
        (KWOK, "0.8.0"),
        ("Kubernetes v1.36.4\n", "1.36.4"),
        ("v3.259.0", "3.259.0"),
    ],
)
def test_the_right_version_is_accepted_in_each_programs_own_words(output: str, wanted: str) -> None:
    assert finding.refusal(output, wanted) is None


@pytest.mark.parametrize(
    ("output", "want"),
    [
        (KUBECTL, "is version 1.36.4, 1.36.5 is wanted"),
        ("Client Version: v1.36.5-alpha.1\n", "is version 1.36.5-alpha.1, 1.36.5 is wanted"),
        ("unknown flag: --version\n", "reports no version, 1.36.5 is wanted"),
    ],
)
def test_another_version_is_refused_with_both_numbers(output: str, want: str) -> None:
    assert finding.refusal(output, "1.36.5") == want


def test_sluice_tools_comes_before_path_and_both_before_the_cache(tmp_path: Path) -> None:
    version = fakes.pinned("kwok")
    chosen = fakes.program(tmp_path / "mine", "kwok", f"kwok version v{version}")
    on_path = fakes.program(tmp_path / "path", "kwok", f"kwok version v{version}")
    environment = fakes.environment(tmp_path, SLUICE_TOOLS=str(tmp_path / "mine"), PATH=str(tmp_path / "path"))
    built = fakes.program(finding.binary_directory(fakes.recipe("kwok"), environment), "kwok", "never asked")
    (built.parent.parent / finding.SIZES).write_text(json.dumps({"kwok": built.stat().st_size}))

    search = finding.search("kwok", environment)

    assert [candidate.path for candidate in search.candidates] == [chosen, on_path, built]
    assert finding.paths(["kwok"], environment) == {"kwok": chosen}


def test_a_program_that_cannot_be_asked_for_its_version_is_never_taken_from_elsewhere(tmp_path: Path) -> None:
    fakes.program(tmp_path / "path", "kuberay-operator", f"v{fakes.pinned('kuberay')}")
    environment = fakes.environment(tmp_path, PATH=str(tmp_path / "path"))
    [candidate] = finding.search("kuberay-operator", environment).candidates
    assert candidate.refusal == f"cannot be asked for its version, {fakes.pinned('kuberay')} is wanted"


def test_a_truncated_program_of_the_cache_counts_as_not_built(tmp_path: Path) -> None:
    environment = fakes.environment(tmp_path)
    built = fakes.program(finding.binary_directory(fakes.recipe("kwok"), environment), "kwok", "never asked")
    assert not finding.is_intact(built)
    (built.parent.parent / finding.SIZES).write_text(json.dumps({"kwok": built.stat().st_size}))
    assert finding.is_intact(built)
    built.write_bytes(built.read_bytes()[:10])
    assert not finding.is_intact(built)
    with pytest.raises(finding.NotBuiltError, match="make tools"):
        finding.paths(["kwok"], environment)


def test_a_wrong_version_is_skipped_and_says_why(tmp_path: Path) -> None:
    fakes.program(tmp_path / "old", "kwok", "kwok version v0.1.0")
    fakes.program(tmp_path / "broken", "kwok", "segmentation fault", code=3)
    right = fakes.program(tmp_path / "right", "kwok", f"kwok version v{fakes.pinned('kwok')}")
    path = os.pathsep.join(str(tmp_path / name) for name in ("old", "broken", "right"))

    search = finding.search("kwok", fakes.environment(tmp_path, PATH=f"{path}:/usr/bin:/bin"))

    want = [f"is version 0.1.0, {search.wanted_version} is wanted", "exits with 3 when asked for its version", None]
    assert [candidate.refusal for candidate in search.candidates] == want
    assert search.chosen is not None
    assert search.chosen.path == right


def test_a_program_found_twice_through_a_link_is_asked_once(tmp_path: Path) -> None:
    fakes.program(tmp_path / "bin", "kwok", "anything")
    (tmp_path / "link").symlink_to(tmp_path / "bin")
    path = os.pathsep.join((str(tmp_path / "bin"), str(tmp_path / "link"), ""))
    assert len(finding.outside("kwok", {"PATH": path})) == 1


def test_a_file_that_cannot_be_run_is_no_program(tmp_path: Path) -> None:
    (tmp_path / "kwok").write_text("text")
    assert finding.outside("kwok", {"PATH": str(tmp_path)}) == ()


def test_what_is_missing_is_named_with_the_command_that_makes_it(tmp_path: Path) -> None:
    with pytest.raises(finding.NotBuiltError) as raised:
        finding.paths(["kube-scheduler", "etcd"], fakes.environment(tmp_path, PATH=""))
    assert "not built yet: kube-scheduler, etcd" in str(raised.value)
    assert "make tools" in str(raised.value)
    assert "build etcd kubernetes" in str(raised.value)
