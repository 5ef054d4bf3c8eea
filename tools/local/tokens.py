"""Mint a ServiceAccount's token, as a pod of it would get one, and write a kubeconfig for it."""

from pathlib import Path

from tools.local import api, kubeconfig

LIFETIME_SECONDS = 3600


def mint(client: api.Api, *, namespace: str, service_account: str, lifetime_seconds: int = LIFETIME_SECONDS) -> str:
    """Ask the API server for a token (TokenRequest); the ServiceAccount must exist."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{service_account}/token"
    wish = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": lifetime_seconds},
    }
    return str(client.create(path, wish)["status"]["token"])


def write_kubeconfig(
    client: api.Api,
    path: Path,
    *,
    namespace: str,
    service_account: str,
    lifetime_seconds: int = LIFETIME_SECONDS,
) -> kubeconfig.Access:
    """Mint a token and write a kubeconfig that holds it; return the same as a value."""
    token = mint(client, namespace=namespace, service_account=service_account, lifetime_seconds=lifetime_seconds)
    access = kubeconfig.Access(
        server=client.access.server,
        authority_pem=client.access.authority_pem,
        credential=kubeconfig.BearerToken(token=token),
    )
    kubeconfig.write(path, access, user=f"system:serviceaccount:{namespace}:{service_account}", namespace=namespace)
    return access
