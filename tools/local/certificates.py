"""Keys and certificates of one plane, made on the spot: two authorities, one server certificate, one per identity."""

import dataclasses
import datetime as dt
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID_DAYS = 365


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Pki:
    """Where the plane's keys and certificates are."""

    directory: Path

    @property
    def authority(self) -> Path:
        return self.certificate("ca")

    @property
    def front_proxy_authority(self) -> Path:
        return self.certificate("front-proxy-ca")

    @property
    def service_account_key(self) -> Path:
        return self.key("service-account")

    def certificate(self, name: str) -> Path:
        return self.directory / f"{name}.crt"

    def key(self, name: str) -> Path:
        return self.directory / f"{name}.key"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Who a client certificate says its holder is: user name and group."""

    common_name: str
    organization: str | None = None


# Names of files under pki/, and who each is to the API server.
CLIENTS = {
    "admin": Subject(common_name="admin", organization="system:masters"),
    "kube-controller-manager": Subject(common_name="system:kube-controller-manager"),
    "kube-scheduler": Subject(common_name="system:kube-scheduler"),
    "kwok": Subject(common_name="kwok", organization="system:masters"),
    "node-registrar": Subject(common_name="node-registrar", organization="system:masters"),
    "kuberay-operator": Subject(common_name="kuberay-operator", organization="system:masters"),
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Authority:
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate


def write(directory: Path) -> Pki:
    """Make everything a plane needs and write it as PEM files that only their owner can read."""
    pki = Pki(directory=directory)
    directory.mkdir(parents=True, exist_ok=True)
    directory.chmod(0o700)
    authority = _write_authority(pki, "ca")
    _write_authority(pki, "front-proxy-ca")
    _write_key(pki.service_account_key, ec.generate_private_key(ec.SECP256R1()))
    _write_leaf(pki, "server", authority, Subject(common_name="kube-apiserver"))
    for name, subject in CLIENTS.items():
        _write_leaf(pki, name, authority, subject)
    return pki


def _write_authority(pki: Pki, name: str) -> _Authority:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"sluice local {name}")])
    usage = _key_usage(signs_certificates=True)
    certificate = (
        _builder(subject, issuer=subject, key=key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(key, hashes.SHA256())
    )
    _write_key(pki.key(name), key)
    _write_certificate(pki.certificate(name), certificate)
    return _Authority(key=key, certificate=certificate)


def _write_leaf(pki: Pki, name: str, authority: _Authority, subject: Subject) -> None:
    """Write a certificate for a client, or, with addresses in it, for the servers on this computer."""
    key = ec.generate_private_key(ec.SECP256R1())
    is_server = name == "server"
    purpose = ExtendedKeyUsageOID.SERVER_AUTH if is_server else ExtendedKeyUsageOID.CLIENT_AUTH
    issuer_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    builder = (
        _builder(_name(subject), issuer=authority.certificate.subject, key=key)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        .add_extension(issuer_key, critical=False)
    )
    if is_server:
        names = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
        addresses = ("127.0.0.1", "10.0.0.1")
        alternatives: list[x509.GeneralName] = [x509.DNSName(text) for text in names]
        alternatives += [x509.IPAddress(ipaddress.ip_address(text)) for text in addresses]
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    _write_key(pki.key(name), key)
    _write_certificate(pki.certificate(name), builder.sign(authority.key, hashes.SHA256()))


def _builder(subject: x509.Name, *, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=VALID_DAYS))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _name(subject: Subject) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, subject.common_name)]
    if subject.organization:
        attributes.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, subject.organization))
    return x509.Name(attributes)


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    # TraditionalOpenSSL is SEC1 ("EC PRIVATE KEY"): the API server refuses PKCS#8 for ServiceAccount keys.
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    path.touch(mode=0o600)
    path.write_bytes(pem)


def _write_certificate(path: Path, certificate: x509.Certificate) -> None:
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
