"""Credentials in a pod: two files, read again when they change, and errors that name the file and never its content."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from autoscaler.kube.connection import credentials
from tools.local import certificates


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return certificates.write(tmp_path_factory.mktemp("pki")).authority.read_bytes()


@pytest.fixture
def origin(tmp_path: Path, authority: bytes) -> credentials.InCluster:
    (tmp_path / "token").write_text("first\n")
    (tmp_path / "ca.crt").write_bytes(authority)
    return credentials.InCluster(host="10.0.0.1", port=443, directory=tmp_path)


def load(origin: credentials.Origin) -> credentials.Credentials:
    async def load() -> credentials.Credentials:
        return await credentials.Credentials.load(origin)

    return asyncio.run(load())


@pytest.mark.parametrize(("host", "want"), [("10.0.0.1", "https://10.0.0.1:443"), ("fd00::1", "https://[fd00::1]:443")])
def test_a_pod_trusts_its_ca_alone_and_finds_its_server(origin: credentials.InCluster, host: str, want: str) -> None:
    got = load(credentials.InCluster(host=host, port=443, directory=origin.directory))
    assert got.server == want
    assert got.ssl_context is not None
    assert [each["subject"] for each in got.ssl_context.get_ca_certs()] == [((("commonName", "sluice local ca"),),)]
    assert got.ssl_context.check_hostname


def test_a_renewed_token_is_used_within_a_minute_or_when_the_old_one_is_refused(
    origin: credentials.InCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = origin.directory / "token"

    async def scenario() -> list[str | None]:
        now = [0.0]
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now[0])
        known = await credentials.Credentials.load(origin)
        seen = [await known.header()]
        token.write_text("second")
        now[0] = credentials.REFRESH_SECONDS - 1
        seen.append(await known.header())
        now[0] = credentials.REFRESH_SECONDS + 1
        seen.append(await known.header())
        token.write_text("third")
        await known.refresh()
        seen.append(await known.header())
        return seen

    assert asyncio.run(scenario()) == ["Bearer first", "Bearer first", "Bearer second", "Bearer third"]


def test_a_token_that_cannot_be_read_again_leaves_the_one_we_have(
    origin: credentials.InCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> str | None:
        known = await credentials.Credentials.load(origin)
        (origin.directory / "token").unlink()
        later = asyncio.get_running_loop().time() + credentials.REFRESH_SECONDS + 1
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: later)
        return await known.header()

    assert asyncio.run(scenario()) == "Bearer first"


def _no_token(directory: Path) -> None:
    (directory / "token").unlink()


def _empty_token(directory: Path) -> None:
    (directory / "token").write_text("\n")


def _broken_token(directory: Path) -> None:
    (directory / "token").write_text("TOP\nSECRET")


def _binary_token(directory: Path) -> None:
    (directory / "token").write_text("TOPSECRETÄ")


def _no_authority(directory: Path) -> None:
    (directory / "ca.crt").unlink()


def _empty_authority(directory: Path) -> None:
    (directory / "ca.crt").write_text("")


@pytest.mark.parametrize(
    "spoil", [_no_token, _empty_token, _broken_token, _binary_token, _no_authority, _empty_authority]
)
def test_files_that_are_of_no_use_are_named_and_never_quoted(
    origin: credentials.InCluster, spoil: Callable[[Path], None]
) -> None:
    spoil(origin.directory)
    with pytest.raises(credentials.CredentialsError) as refusal:
        load(origin)
    assert str(origin.directory) in str(refusal.value)
    assert "SECRET" not in f"{refusal.value!r} {refusal.value.__cause__!r}"
