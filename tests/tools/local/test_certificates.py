"""Certificates and keys of a plane are what each component accepts, and nobody else may read the keys."""

from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID

from tools.local import certificates


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> certificates.Pki:
    return certificates.write(tmp_path_factory.mktemp("pki"))


def load(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


@pytest.mark.parametrize("name", ["server", *certificates.CLIENTS])
def test_every_certificate_is_signed_by_the_authority_and_fits_its_key(pki: certificates.Pki, name: str) -> None:
    certificate, authority = load(pki.certificate(name)), load(pki.authority)
    certificate.verify_directly_issued_by(authority)
    key = load_pem_private_key(pki.key(name).read_bytes(), None)
    assert key.public_key() == certificate.public_key()


@pytest.mark.parametrize(("name", "subject"), certificates.CLIENTS.items())
def test_a_client_certificate_says_who_its_holder_is(
    pki: certificates.Pki, name: str, subject: certificates.Subject
) -> None:
    certificate = load(pki.certificate(name))
    want = f"CN={subject.common_name}"
    assert want in certificate.subject.rfc4514_string().split(",")
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]


def test_only_administrators_stand_ins_and_what_brings_its_own_definitions_are_masters() -> None:
    masters = {name for name, subject in certificates.CLIENTS.items() if subject.organization == "system:masters"}
    assert masters == {"admin", "kwok", "node-registrar", "kuberay-operator"}


def test_the_server_certificate_is_valid_for_loopback(pki: certificates.Pki) -> None:
    names = load(pki.certificate("server")).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "127.0.0.1" in [str(address) for address in names.get_values_for_type(x509.IPAddress)]
    assert "localhost" in names.get_values_for_type(x509.DNSName)


def test_the_service_account_key_is_sec1(pki: certificates.Pki) -> None:
    assert pki.service_account_key.read_text().startswith("-----BEGIN EC PRIVATE KEY-----")


def test_keys_are_for_their_owner_alone(pki: certificates.Pki) -> None:
    assert {path.stat().st_mode & 0o777 for path in pki.directory.glob("*.key")} == {0o600}
