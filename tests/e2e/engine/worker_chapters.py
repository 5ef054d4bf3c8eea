"""What worker pools live through in tests of rights, in whichever namespace they are."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from autoscaler.api import keys, version
from tools.local.api import Api

HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


def orphan(api: Api, namespace: str) -> str:
    """Delete a worker with our finalizer whose pool nobody has ever seen; return its path."""
    owner = {
        "apiVersion": version.GROUP_VERSION,
        "kind": "WorkerPool",
        "name": "ghost",
        "uid": secrets.token_hex(8),
        "controller": True,
    }
    metadata = {
        "name": "ghost-abcde",
        "labels": {keys.WORKER_POOL: "ghost"},
        "finalizers": [keys.FINALIZER],
        "ownerReferences": [owner],
    }
    spec = {"containers": [{"name": "worker", "image": "worker:1"}], "nodeSelector": {"nowhere": "none"}}
    pods = f"/api/v1/namespaces/{namespace}/pods"
    api.create(pods, {"metadata": metadata, "spec": spec})
    api.delete(f"{pods}/ghost-abcde")
    return f"{pods}/ghost-abcde"


@contextmanager
def no_new_pods(api: Api, namespace: str) -> Iterator[None]:
    """Let the API server fail whenever a pod of a namespace is made."""
    rule: dict[str, Any] = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["pods"],
    }
    hook = {
        "name": "broken.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [rule],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    api.create(HOOKS, {"metadata": {"name": "broken"}, "webhooks": [hook]})
    yield
    api.delete(f"{HOOKS}/broken")
