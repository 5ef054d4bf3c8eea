"""A kubeconfig is read back as it was written, and only its owner may read it."""

from pathlib import Path

import pytest

from tools.local import kubeconfig

CERTIFICATE = kubeconfig.ClientCertificate(certificate_pem=b"a certificate", key_pem=b"a key")
TOKEN = kubeconfig.BearerToken(token="a.b.c")


@pytest.mark.parametrize("credential", [CERTIFICATE, TOKEN], ids=["certificate", "token"])
def test_what_was_written_is_read_back(
    tmp_path: Path, credential: kubeconfig.ClientCertificate | kubeconfig.BearerToken
) -> None:
    want = kubeconfig.Access(server="https://127.0.0.1:1", authority_pem=b"an authority", credential=credential)
    path = tmp_path / "kubeconfig"
    kubeconfig.write(path, want, user="someone")
    assert kubeconfig.read(path) == want
    assert path.stat().st_mode & 0o777 == 0o600


def test_an_existing_file_that_others_may_read_is_replaced_by_one_they_may_not(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text("old")
    path.chmod(0o644)
    access = kubeconfig.Access(
        server="https://127.0.0.1:1", authority_pem=b"ca", credential=kubeconfig.BearerToken(token="secret")
    )
    kubeconfig.write(path, access, user="reader")
    assert path.stat().st_mode & 0o777 == 0o600
