"""Who we are to the API server: read from the pod's surroundings or from a kubeconfig, and read again when they change.

Tokens are short-lived, so they are never kept for longer than a minute. Nothing here may log a credential.
"""

import asyncio
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final, assert_never

import structlog
import yaml
from kubernetes.aio import client, config
from kubernetes.aio.config import incluster_config

log = structlog.get_logger()
REFRESH_SECONDS: Final = 60.0
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


class Credentials:
    """The API server's address, how to trust it, and the header that tells who we are."""

    def __init__(self, origin: Origin, configuration: client.Configuration) -> None:
        self._origin = origin
        self._configuration = configuration
        self._read_at = asyncio.get_running_loop().time()
        self._refreshing = asyncio.Lock()
        self.server: str = str(configuration.host).rstrip("/")
        self.ssl_context = _ssl_context(configuration)

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
        key: str | None = self._configuration.api_key.get(_BEARER)
        return key.strip() if key else None

    async def refresh(self) -> None:
        """Read the token again: it was renewed, or the server no longer takes it."""
        async with self._refreshing:
            self._read_at = asyncio.get_running_loop().time()
            self._configuration = await _read(self._origin)


async def _read(origin: Origin) -> client.Configuration:
    configuration = client.Configuration()
    try:
        match origin:
            case InCluster():
                loader = incluster_config.InClusterConfigLoader(
                    token_filename=str(origin.directory / "token"),
                    cert_filename=str(origin.directory / "ca.crt"),
                    try_refresh_token=False,
                    environ={"KUBERNETES_SERVICE_HOST": origin.host, "KUBERNETES_SERVICE_PORT": str(origin.port)},
                )
                loader.load_and_set(configuration)
            case KubeConfig():
                await config.load_kube_config(
                    str(origin.path), context=origin.context, client_configuration=configuration, persist_config=False
                )
            case _:
                assert_never(origin)
        _ssl_context(configuration)
    except (config.ConfigException, OSError) as error:
        raise CredentialsError(f"cannot read credentials for the API server from {_where(origin)}: {error}") from error
    except (ValueError, TypeError, KeyError, AttributeError, yaml.YAMLError) as error:
        # Its text may quote the file, and with it a token.
        what = type(error).__name__
        raise CredentialsError(f"cannot make sense of the credentials in {_where(origin)} ({what})") from None
    return configuration


def _where(origin: Origin) -> Path:
    return origin.directory if isinstance(origin, InCluster) else origin.path


def _ssl_context(configuration: client.Configuration) -> ssl.SSLContext | None:
    if not str(configuration.host).startswith("https"):
        return None
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
