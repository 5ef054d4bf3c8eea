"""Kubeconfigs, and the commands by which a user gets one. Pure.

No kubeconfig written here holds a token: it names a program that asks AWS for one when it is needed, because a token
would be dead after fifteen minutes and readable for ever.
"""

import json
import shlex


def of_eks(*, cluster: str, region: str, endpoint: str, certificate_authority: str) -> str:
    """Write a kubeconfig for a cluster of EKS, as JSON, which is YAML."""
    command = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": "aws",
        "args": ["eks", "get-token", "--cluster-name", cluster, "--region", region, "--output", "json"],
        "interactiveMode": "Never",
    }
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": cluster,
                    "cluster": {"server": endpoint, "certificate-authority-data": certificate_authority},
                }
            ],
            "users": [{"name": cluster, "user": {"exec": command}}],
            "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": cluster}}],
            "current-context": cluster,
        }
    )


def eks_command(cluster: str, region: str) -> str:
    """Write the command that puts a cluster of EKS into the user's kubeconfig."""
    return shlex.join(["aws", "eks", "update-kubeconfig", "--name", cluster, "--region", region])


def existing_command(*, secret: str | None, context: str | None) -> str:
    """Write the command that leads to a cluster that was there already."""
    if secret is not None:
        path = shlex.quote(f"sluice:secrets[{json.dumps(secret)}]")
        return f"pulumi config get --path {path} > kubeconfig"
    return shlex.join(["kubectl", "config", *(["use-context", context] if context else ["current-context"])])
