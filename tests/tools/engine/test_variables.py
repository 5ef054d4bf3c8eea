"""What the engine runs with: nothing that a user has set for an engine, a cluster or an account of their own."""

import os
from pathlib import Path

import pytest

from tools.engine import layout, variables

FILES = layout.Layout(root=Path("/engine"))
PLANE = {"KUBECONFIG": "plane", "AWS_ENDPOINT_URL": "http://127.0.0.1:1", "PATH": "/tools"}


@pytest.mark.parametrize(
    "name",
    [
        "PULUMI_CONFIG",
        "PULUMI_ACCESS_TOKEN",
        "PULUMI_CONFIG_PASSPHRASE_FILE",
        "PULUMI_K8S_ENABLE_PATCH_FORCE",
        "KUBECONFIG",
        "AWS_PROFILE",
        "AWS_ENDPOINT_URL",
        "PYTHONDONTWRITEBYTECODE",
    ],
)
def test_what_is_meant_for_others_is_dropped(name: str) -> None:
    made = variables.of_run(FILES, {}, {name: "theirs", "HOME": "/home"})
    assert name not in made
    assert made["HOME"] == "/home"


def test_ours_win_over_the_users() -> None:
    theirs = {"PULUMI_CONFIG_PASSPHRASE": "theirs", "PULUMI_BACKEND_URL": "s3://theirs", "PULUMI_HOME": "/theirs"}
    made = variables.of_run(FILES, {}, theirs)
    want = {
        "PULUMI_CONFIG_PASSPHRASE": variables.PASSPHRASE,
        "PULUMI_BACKEND_URL": "file:///engine/backend",
        "PULUMI_HOME": "/engine/home",
    }
    assert {name: made[name] for name in want} == want


def test_the_surroundings_are_reached_through_our_programs() -> None:
    made = variables.of_run(FILES, PLANE, {"KUBECONFIG": "theirs", "PATH": "/usr/bin"})
    assert made["PATH"] == os.pathsep.join(("/engine/bin", "/tools"))
    assert (made["KUBECONFIG"], made["AWS_ENDPOINT_URL"]) == ("plane", "http://127.0.0.1:1")
