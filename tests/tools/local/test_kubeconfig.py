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
