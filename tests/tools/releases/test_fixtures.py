"""The recorded releases are whole, and hold nothing of the machine that recorded them."""

import re
from pathlib import Path

import pytest

from tools.releases import fixtures

FOREIGN = re.compile(r"/(?:home|root|tmp|Users)/|ciphertext|PRIVATE KEY|127\.0\.0\.1:(?!6443|5000)\d")


def by_version(release: fixtures.Release) -> str:
    return release.version


@pytest.mark.parametrize("release", fixtures.all_releases(), ids=by_version)
def test_a_recorded_release_is_whole(release: fixtures.Release) -> None:
    names = {one["metadata"]["name"] for one in release.definitions()}
    assert "instancepools.sluice.dev" in names
    assert {one["metadata"]["labels"]["sluice.dev/version"] for one in release.definitions()} == {release.version}
    assert {one["kind"] for one in release.policies()} >= {"ValidatingAdmissionPolicy", "MutatingAdmissionPolicy"}
    for stack in fixtures.STACKS:
        assert "sluice:clusters" in release.stack(stack)["config"]
        types = {one["type"] for one in release.state(stack)["deployment"]["resources"]}
        assert {"aws:autoscaling/group:Group", "kubernetes:sluice.dev/v1alpha1:InstancePool"} <= types


@pytest.mark.parametrize("release", fixtures.all_releases(), ids=by_version)
def test_a_recorded_state_has_nothing_of_its_machine(release: fixtures.Release) -> None:
    for stack in fixtures.STACKS:
        assert FOREIGN.findall(release.state_file(stack).read_text()) == []


def test_the_latest_release_is_by_number_not_by_letter(tmp_path: Path) -> None:
    for version in ("0.10.0", "0.9.0", "0.2.0"):
        (tmp_path / version).mkdir()
    (tmp_path / "README.md").touch()
    assert fixtures.latest(tmp_path).version == "0.10.0"
