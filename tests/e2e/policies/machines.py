"""Machines' catalogue and guests on a plane where all our policies are in force."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from autoscaler.api import keys, machine_catalogue, names
from autoscaler.api.resources import Machine
from tests import builders
from tests.e2e import waiting
from tests.e2e.policies import ground
from tests.e2e.policies.ground import RUNTIME_ACCOUNT, RUNTIME_NAMESPACE, Ground, Object
from tools.local.api import Api
from tools.local.plane import Plane

CATALOGUES = f"/api/v1/namespaces/{RUNTIME_NAMESPACE}/configmaps"
CATALOGUE = f"{CATALOGUES}/{names.MACHINE_CATALOGUE}"
GUESTS, ELSEWHERE, DISABLED = "guests", "no-guests", "disabled-guests"
NAMESPACES: Mapping[str, dict[str, str]] = {
    GUESTS: {keys.INJECT_RESOURCE: keys.INJECT_ENABLED},
    ELSEWHERE: {},
    DISABLED: {keys.INJECT_RESOURCE: "disabled"},
}
MERGE = "application/merge-patch+json"
_RELABELLED = {"metadata": {"labels": {keys.MACHINE_TYPE: "other"}}}
_NODE = {"kind": "Node", "name": "node"}
_GPU = {"type": "nvidia.com/gpu", "num": 2}
TYPES = [
    {"name": "medium", "spec": {"cpu": "6000m", "memory": "48Gi"}, "available": 4},
    {"name": "odd", "spec": {"cpu": "1234m", "memory": "1234567"}, "available": 4},
    {"name": "product", "spec": {"cpu": "4", "memory": "8Gi", "gpu": {**_GPU, "product": "RTX-3090"}}, "available": 1},
    {"name": "family", "spec": {"cpu": "4", "memory": "8Gi", "gpu": {**_GPU, "family": "ampere"}}, "available": 1},
    {"name": "machine", "spec": {"cpu": "4", "memory": "8Gi", "gpu": {**_GPU, "machine": ""}}, "available": 1},
    {"name": "child", "spec": {"dependence": {"parent": "odd", "availableRatio": 33}}, "available": 2},
]
GROUPS = ("general", "spare")


@dataclasses.dataclass(frozen=True, kw_only=True)
class MachineGround:
    """Namespaces with and without guests, and the catalogue as the runtime wrote it."""

    ground: Ground
    runtime: Api
    catalogue: Object

    def write_catalogue(self) -> None:
        """Write the catalogue and wait until the policies see it."""
        self.runtime.create(CATALOGUES, self.catalogue)
        waiting.eventually(lambda: self.injects() and self.knows())

    def injects(self) -> bool:
        """Tell whether the policy that changes guests sees the catalogue."""
        made = self.ground.try_pod(GUESTS, guest("probe", machine_type="child"))
        return made.ok and keys.machine_label("child") in str(made.body)

    def knows(self) -> bool:
        """Tell whether the policy that refuses guests sees the catalogue."""
        return not self.ground.try_pod(GUESTS, guest("probe", group="nobody")).ok

    def guards(self) -> bool:
        """Tell whether the other policies are in force: each comes into force by itself."""
        api, query = self.ground.api, {"dryRun": "All"}
        pod = f"/api/v1/namespaces/{ELSEWHERE}/pods/probe"
        binding = {"metadata": {"name": "probe", "labels": _RELABELLED["metadata"]["labels"]}, "target": _NODE}
        answers = [
            self.ground.try_pod(ELSEWHERE, guest("p", labels={keys.POD_ROLE: keys.ROLE_RESERVATION})),
            api.request("PATCH", CATALOGUE, {"data": {"a": "b"}}, content_type=MERGE, query=query),
            api.request("PATCH", pod, _RELABELLED, content_type=MERGE, query=query),
            api.request("POST", f"{pod}/binding", binding, query=query),
        ]
        return [answer.status for answer in answers] == [422] * len(answers) and bool(
            self.ground.try_pod(GUESTS, ground.pod("p", labels={keys.MACHINE_TYPE: "medium"})).warnings
        )


def catalogue(groups: Mapping[str, list[Object]] | None = None) -> Object:
    """Write the ConfigMap, of the usual groups or others."""
    chosen = dict.fromkeys(GROUPS, TYPES) if groups is None else groups
    specs = []
    for group, types in chosen.items():
        made = builders.resource("Machine", machineTypes=types, nodePool=[])
        specs.append((group, Machine.model_validate(made).spec))
    data = dict(machine_catalogue.catalogue(specs).data)
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": names.MACHINE_CATALOGUE}, "data": data}


def open_ground(plane: Plane) -> Iterator[MachineGround]:
    """Make namespaces and the catalogue, and clear them away in the end."""
    made = Ground(plane=plane)
    for name, labels in NAMESPACES.items():
        made.make("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
        path = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        waiting.eventually(lambda path=path: made.api.get(path))  # type: ignore[misc]
    with made.as_account(RUNTIME_NAMESPACE, RUNTIME_ACCOUNT) as runtime:
        opened = MachineGround(ground=made, runtime=runtime, catalogue=catalogue())
        opened.write_catalogue()
        made.make(f"/api/v1/namespaces/{ELSEWHERE}/pods", guest("probe", schedulerName="example.com/nobody"))
        waiting.eventually(opened.guards)
        yield opened
        runtime.delete(CATALOGUE)
    made.close()


def guest(
    name: str,
    *,
    group: str = "general",
    machine_type: str = "medium",
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> Object:
    """Write a pod that asks for a machine."""
    asking = {keys.MACHINE_GROUP: group, keys.MACHINE_TYPE: machine_type}
    return ground.pod(name, labels={**asking, **(labels or {})}, **spec)
