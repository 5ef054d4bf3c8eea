"""Ray's operator on a plane: create its definitions, wait until they are served, and become the operator.

It becomes the operator instead of starting it, so that who knows the process by its id goes on knowing it. Started
before its definitions are served, the operator would look for them again only ten seconds later.
"""

import http.client
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import yaml

from tools.local import api, kubeconfig
from tools.local.components import Component
from tools.toolchain import finding, products

POLL_SECONDS = 0.1
SERVED_SECONDS = 60.0
INSISTED = {"RayJob": "rayjobs", "RayService": "rayservices"}
"""Kinds that nobody here uses, and without which the operator ends: defined without their schemas, which are large."""
# A definition is a megabyte: read in Python it takes many seconds.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def run(path: Path, environment: Mapping[str, str]) -> NoReturn:
    """Become the operator of the cluster that a kubeconfig leads to; never returns."""
    operator = finding.paths([Component.KUBERAY], environment)[Component.KUBERAY]
    product = products.product_of(Component.KUBERAY)
    whole = [read(file) for file in finding.definitions(product, environment)]
    definitions = [*map(stored_alone, whole), *(unchecked(kind, plural) for kind, plural in INSISTED.items())]
    with api.Api(kubeconfig.read(path)) as client:
        create(client, definitions)
        wait_until_served(client, definitions)
    os.execve(operator, [str(operator), *arguments(path)], dict(environment))  # noqa: S606 - a fixed program


def arguments(path: Path) -> tuple[str, ...]:
    """Return the operator's arguments."""
    return (
        f"-kubeconfig={path}",
        "-enable-leader-election=false",
        # Nobody asks: any free port.
        "-metrics-addr=127.0.0.1:0",
        "-health-probe-bind-address=127.0.0.1:0",
    )


def read(file: Path) -> Any:  # noqa: ANN401 - JSON
    """Read a definition."""
    return yaml.load(file.read_text(), Loader=_LOADER)  # noqa: S506 - both loaders are safe ones


def stored_alone(definition: Mapping[str, Any]) -> Any:  # noqa: ANN401 - JSON
    """Leave out the versions that are only served for old clients: each costs the API server a second."""
    spec = definition["spec"]
    kept = [version for version in spec["versions"] if version["storage"]]
    return {**definition, "spec": {**spec, "versions": kept}}


def unchecked(kind: str, plural: str) -> Any:  # noqa: ANN401 - JSON
    """Define a kind of Ray's that may hold anything."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema, "subresources": {"status": {}}}
    names = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.ray.io"},
        "spec": {"group": "ray.io", "names": names, "scope": "Namespaced", "versions": [version]},
    }


def create(client: api.Api, definitions: Sequence[Any]) -> None:
    """Create definitions; those that are there already stay as they are. They are too large to be applied."""
    for definition in definitions:
        answer = client.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
        if answer.status != http.client.CONFLICT:
            answer.required()


def wait_until_served(client: api.Api, definitions: Sequence[Any]) -> None:
    """Wait until every defined kind is listed and answers, which is seconds after it was created."""
    deadline = time.monotonic() + SERVED_SECONDS
    while not all(_is_served(client, definition["spec"]) for definition in definitions):
        if time.monotonic() > deadline:
            names = ", ".join(definition["metadata"]["name"] for definition in definitions)
            raise api.ApiError(f"not all of {names} are served after {SERVED_SECONDS:.0f} s")
        time.sleep(POLL_SECONDS)


def _is_served(client: api.Api, spec: Mapping[str, Any]) -> bool:
    plural = spec["names"]["plural"]
    stored = next(version["name"] for version in spec["versions"] if version["storage"])
    group = client.request("GET", f"/apis/{spec['group']}/{stored}")
    if not group.ok or plural not in {resource["name"] for resource in group.body["resources"]}:
        return False
    return client.request("GET", f"/apis/{spec['group']}/{stored}/{plural}", query={"limit": "1"}).ok
