"""The `aws` command of an engine hands out the credential of the plane that plays a cluster."""

import json
from pathlib import Path

import pytest

from tools.engine import aws_command

CLUSTERS = {"*": {"token": "any"}, "one": {"clientCertificateData": "CERT", "clientKeyData": "KEY", "endpoint": "e"}}


@pytest.fixture(autouse=True)
def _directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "clusters.json").write_text(json.dumps(CLUSTERS))
    monkeypatch.setenv("SLUICE_ENGINE_DIRECTORY", str(tmp_path))


@pytest.mark.parametrize(
    ("cluster", "want"),
    [("one", {"clientCertificateData": "CERT", "clientKeyData": "KEY"}), ("two", {"token": "any"})],
)
def test_a_cluster_has_its_own_credential_or_the_default(
    capsys: pytest.CaptureFixture[str], cluster: str, want: dict[str, str]
) -> None:
    code = aws_command.main(["--region", "x", "eks", "get-token", "--cluster-name", cluster, "--output", "json"])
    answer = json.loads(capsys.readouterr().out)
    assert code == 0
    assert (answer["kind"], answer["status"]) == ("ExecCredential", want)


def test_a_cluster_that_nobody_plays_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "clusters.json").write_text(json.dumps({"one": {}}))
    assert aws_command.main(["eks", "get-token", "--cluster-name", "two"]) == 1
    assert "no API server plays the cluster two; there are: one" in capsys.readouterr().err
