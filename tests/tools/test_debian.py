"""Debian's programs: from PATH, else unpacked once into the cache; half of one is never found."""

import subprocess
from pathlib import Path

import pytest

from tools import debian

APT_GET = '#!/bin/sh\necho "$@" >> "$LOG"\n: > "$2_1.0_all.deb"\n'
DPKG_DEB = '#!/bin/sh\nmkdir -p "$3/usr/bin"\nprintf "#!/bin/sh\\n" > "$3/usr/bin/prometheus"\n'
said: list[str] = []


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in {"apt-get": APT_GET, "dpkg-deb": DPKG_DEB}.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    for name in ("mkdir", "sh"):
        (programs / name).symlink_to(subprocess.check_output(["which", name], text=True).strip())
    return {"PATH": str(programs), "SLUICE_CACHE": str(tmp_path / "cache"), "LOG": str(tmp_path / "log")}


@pytest.fixture(autouse=True)
def _path(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", environment["PATH"])  # Python looks programs up there


def test_a_program_on_path_is_taken(environment: dict[str, str], tmp_path: Path) -> None:
    want = tmp_path / "bin" / "prometheus"
    want.write_text("#!/bin/sh\n")
    want.chmod(0o755)
    assert debian.program("prometheus", environment, said.append) == want
    assert not (tmp_path / "log").exists()


def test_a_package_is_downloaded_once(environment: dict[str, str], tmp_path: Path) -> None:
    first = debian.program("prometheus", environment, said.append)
    second = debian.program("prometheus", environment, said.append)
    assert first == second == tmp_path / "cache/tools/debian-prometheus/usr/bin/prometheus"
    assert first.exists()
    assert (tmp_path / "log").read_text() == "download prometheus\n"


def test_a_failed_download_says_what_to_do_and_leaves_nothing(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "bin" / "apt-get").write_text("#!/bin/sh\necho 'Unable to locate' >&2\nexit 100\n")
    with pytest.raises(debian.DebianError, match=r"Unable to locate[^$]*on PATH yourself"):
        debian.program("prometheus", environment, said.append)
    assert [path.name for path in (tmp_path / "cache" / "tools").iterdir()] == ["debian-prometheus.lock"]


def test_a_computer_whose_lists_do_not_know_the_package_gets_lists_of_its_own(
    environment: dict[str, str], tmp_path: Path
) -> None:
    knows = 'case "$*" in *lists*) ;; *) echo "Unable to locate" >&2; exit 100;; esac\n'
    made = 'case "$*" in *download*) : > "prometheus_1.0_all.deb";; esac\n'
    (tmp_path / "bin" / "apt-get").write_text(f"#!/bin/sh\n{knows}{made}")
    assert debian.program("prometheus", environment, said.append).exists()
