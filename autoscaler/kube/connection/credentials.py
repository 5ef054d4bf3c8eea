"""Who we are to the API server: read from the pod's surroundings or from a kubeconfig, and read again when they change.

Tokens are short-lived, so they are never kept for longer than a minute. Nothing here may log a credential.
A pod's token and CA are two files, which are read here. The client library of Kubernetes is for kubeconfigs alone: it
costs a second and 45 MB to import, so it is imported when there is one.
"""

import asyncio
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, assert_never

import structlog

if TYPE_CHECKING:
    from kubernetes.aio import client

log = structlog.get_logger()
REFRESH_SECONDS: Final = 60.0
TOKEN_FILE: Final = "token"  # noqa: S105  # a file's name
AUTHORITY_FILE: Final = "ca.crt"
_BEARER: Final = "BearerToken"


class CredentialsError(Exception):
    """There are no credentials where we were told to look."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InCluster:
    """A pod's ServiceAccount: the API server's address and the directory with token and ca.crt."""

    host: str
    port: int
    directory: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeConfig:
    """A kubeconfig file, and a context in it; None means its current one."""

    path: Path
    context: str | None = None


Origin = InCluster | KubeConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """What was read."""

    server: str
    header: str | None = field(repr=False)
    """The Authorization header; None where a client certificate speaks for us."""
    ssl_context: ssl.SSLContext | None


class Credentials:
    """The API server's address, how to trust it, and the header that tells who we are."""

    def __init__(self, origin: Origin, read: _Read) -> None:
        self._origin = origin
        self._header = read.header
        self._read_at = asyncio.get_running_loop().time()
        self._refreshing = asyncio.Lock()
        self.server = read.server.rstrip("/")
        self.ssl_context = read.ssl_context

    @classmethod
    async def load(cls, origin: Origin) -> "Credentials":
        """Read the credentials; raise CredentialsError that says where and what is missing."""
        return cls(origin, await _read(origin))

    async def header(self) -> str | None:
        """Return the Authorization header's present value; None where a client certificate speaks for us."""
        if asyncio.get_running_loop().time() - self._read_at > REFRESH_SECONDS:
            try:
                await self.refresh()
            except CredentialsError as error:  # what we have may still be good; if not, the server will say so
                log.warning("credentials_not_refreshed", error=str(error))
        return self._header

    async def refresh(self) -> None:
        """Read the token again: it was renewed, or the server no longer takes it."""
        async with self._refreshing:
            self._read_at = asyncio.get_running_loop().time()
            self._header = (await _read(self._origin)).header


async def _read(origin: Origin) -> _Read:
    match origin:
        case InCluster():
            return _read_pod(origin)
        case KubeConfig():
            return await _read_kubeconfig(origin)
        case _:
            assert_never(origin)


def _read_pod(origin: InCluster) -> _Read:
    """Read what a kubelet puts into a pod."""
    token, authority = origin.directory / TOKEN_FILE, origin.directory / AUTHORITY_FILE
    try:
        text = token.read_text(encoding="ascii").strip()
        if not text.isprintable() or not text:  # a line break would end the header
            raise CredentialsError(f"the token file {token} does not hold a token")
        context = ssl.create_default_context(cafile=str(authority))
    except UnicodeDecodeError:  # its text would quote the token
        raise CredentialsError(f"the token file {token} does not hold a token") from None
    except ssl.SSLError as error:
        raise CredentialsError(f"there is no certificate in {authority}: {error.reason}") from error
    except OSError as error:
        missing = f"cannot read the token file or ca.crt of the pod's ServiceAccount from {origin.directory}"
        raise CredentialsError(f"{missing}: {error}") from error
    return _Read(server=f"https://{_joined(origin)}", header=f"Bearer {text}", ssl_context=context)


def _joined(origin: InCluster) -> str:
    """Write host and port as a URL has them; an IPv6 address is put in brackets."""
    return f"[{origin.host}]:{origin.port}" if ":" in origin.host else f"{origin.host}:{origin.port}"


async def _read_kubeconfig(origin: KubeConfig) -> _Read:
    import yaml  # noqa: PLC0415  # see above
    from kubernetes.aio import client, config  # noqa: PLC0415

    configuration = client.Configuration()
    try:
        await config.load_kube_config(
            str(origin.path), context=origin.context, client_configuration=configuration, persist_config=False
        )
        key: str | None = configuration.api_key.get(_BEARER)
        return _Read(
            server=str(configuration.host),
            header=key.strip() if key else None,
            ssl_context=_ssl_context(configuration),
        )
    except (config.ConfigException, OSError) as error:
        raise CredentialsError(f"cannot read credentials for the API server from {origin.path}: {error}") from error
    except (ValueError, TypeError, KeyError, AttributeError, yaml.YAMLError) as error:
        # Its text may quote the file, and with it a token.
        what = type(error).__name__
        raise CredentialsError(f"cannot make sense of the credentials in {origin.path} ({what})") from None


def _ssl_context(configuration: "client.Configuration") -> ssl.SSLContext | None:
    if not str(configuration.host).startswith("https"):
        return None
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
