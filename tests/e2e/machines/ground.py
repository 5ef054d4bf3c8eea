"""A machine group on a plane with the real scheduler and StatefulSet controller, and nodes played by KWOK.

Make nodes, a Machine and guests, change them as people do, and read what came of it. The runtime is a process of its
own.
"""

import contextlib
import dataclasses
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from autoscaler.api import crds, keys, manifests, names, policies, resources, version
from autoscaler.kube import kinds
from tests import builders
from tests.e2e import groups, replicas, waiting
from tools.local import api
from tools.local.api import Api
from tools.local.components import Component, Options
from tools.local.plane import Plane

Object = dict[str, Any]
RUNTIME_NAMESPACE, RUNTIME_ACCOUNT = "sluice-system", "runtime"
RUNTIME = policies.Runtime(namespace=RUNTIME_NAMESPACE, service_account=RUNTIME_ACCOUNT)
MACHINES = f"/apis/{version.GROUP_VERSION}/machines"
NODE_POOLS = f"/apis/{version.GROUP_VERSION}/machinenodepools"
STATEFUL_SETS = f"/apis/apps/v1/namespaces/{RUNTIME_NAMESPACE}/statefulsets"
SERVICES = f"/api/v1/namespaces/{RUNTIME_NAMESPACE}/services"
SLEEPERS = f"/api/v1/namespaces/{RUNTIME_NAMESPACE}/pods"
NODES = "/api/v1/nodes"
TYPE = "medium"


@dataclasses.dataclass(kw_only=True)
class Ground:
    """One machine group with nodes of its own, and a namespace for its guests."""

    plane: Plane
    group: str
    """The Machine's name, and that of the guests' namespace."""
    nodes: list[str] = dataclasses.field(default_factory=list)

    @property
    def api(self) -> Api:
        return self.plane.api

    @property
    def pods(self) -> str:
        """Where guests are."""
        return f"/api/v1/namespaces/{self.group}/pods"

    # What a test makes

    def add_node(self, cpu: str = "2", **labels: str) -> str:
        """Make a node, and wait until it takes pods."""
        name = f"{self.group}-{len(self.nodes) + 1}"
        room = {"cpu": cpu, "memory": "64Gi", "pods": "110"}
        metadata = {"name": name, "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}}
        self.api.create(NODES, {"metadata": metadata, "status": {"capacity": room, "allocatable": room}})
        self.nodes.append(name)
        waiting.eventually(lambda: groups.is_schedulable(self.node(name)))
        return name

    def add_machine(self, *types: Object, nodes: Iterable[Object] | None = None, **spec: Any) -> None:
        """Make the Machine: unless told otherwise of one machine of 2 cpus, on all nodes."""
        entries = [entry(each) for each in self.nodes] if nodes is None else list(nodes)
        body = builders.resource(
            "Machine", name=self.group, machineTypes=list(types) or [machine_type()], nodePool=entries, **spec
        )
        self.api.create(MACHINES, body)

    def change_machine(self, **spec: Any) -> None:
        """Change the Machine's spec; lists are replaced."""
        self.api.merge(f"{MACHINES}/{self.group}", {"spec": spec})

    def add_guest(self, name: str, machine: str = TYPE, **spec: Any) -> Object:
        """Make a pod that asks for a machine and says nothing of resources."""
        labels = {keys.MACHINE_GROUP: self.group, keys.MACHINE_TYPE: machine}
        whole = {"containers": [{"name": "main", "image": "app:1"}], "terminationGracePeriodSeconds": 1, **spec}
        body = {"metadata": {"name": name, "labels": labels}, "spec": whole}
        waiting.eventually(lambda: self.api.request("POST", self.pods, body, query={"dryRun": "All"}).ok)
        made: Object = self.api.create(self.pods, body)
        return made

    def delete_guest(self, name: str) -> None:
        self.api.delete(f"{self.pods}/{name}")

    # What came of it

    def machine(self) -> Object:
        found: Object = self.api.get(f"{MACHINES}/{self.group}")
        return found

    def usage(self, machine: str = TYPE) -> Object:
        """Return what the Machine says of a type; empty: it says nothing yet."""
        said = self.machine().get("status", {}).get("availableMachines", ())
        return next((each["usage"] for each in said if each["name"] == machine), {})

    def node(self, name: str) -> Object:
        found: Object = self.api.get(f"{NODES}/{name}")
        return found

    def marks(self, node: str) -> dict[str, str]:
        """Return what machine groups wrote on a node: labels, annotations, and taints by their keys."""
        found = self.node(node)
        metadata, taints = found["metadata"], found["spec"].get("taints", ())
        written = metadata.get("labels", {}) | metadata.get("annotations", {})
        written |= {f"taint {each['key']}": each.get("value", "") for each in taints}
        return {name: value for name, value in written.items() if "sluice.dev/" in name}

    def guest(self, name: str) -> Object:
        found: Object = self.api.get(f"{self.pods}/{name}")
        return found

    def sleepers(self, machine: str = TYPE) -> list[Object]:
        """Return a type's sleepers."""
        selector = f"{keys.MACHINE_GROUP}={self.group},{keys.MACHINE_TYPE}={machine}"
        return list(self.api.get(SLEEPERS, {"labelSelector": selector})["items"])

    def rooms(self, machine: str = TYPE) -> Counter[str]:
        """Return how many sleepers of a type hold room on each node, and do not go."""
        staying = [each for each in self.sleepers(machine) if "deletionTimestamp" not in each["metadata"]]
        return Counter(node for each in staying if (node := node_of(each)))

    def events(self, kind: str, name: str, namespace: str) -> dict[str, str]:
        """Return the messages of events about an object, by reason."""
        query = {"fieldSelector": f"involvedObject.kind={kind},involvedObject.name={name}"}
        found = self.api.get(f"/api/v1/namespaces/{namespace}/events", query)["items"]
        return {each["reason"]: each["message"] for each in found}

    def condition(self, kind: str) -> str:
        """Return the reason of one of the Machine's conditions; empty: it does not say yet."""
        said = self.machine().get("status", {}).get("conditions", ())
        return next((each["reason"] for each in said if each["type"] == kind), "")

    def node_conditions(self) -> dict[str, str]:
        """Return what the MachineNodePool says of each node."""
        pool = self.api.get(f"{NODE_POOLS}/{names.machine_node_pool(self.group)}")
        return {each["name"]: each["condition"] for each in pool.get("status", {}).get("nodePool", ())}

    # Waiting

    def wait_for_rooms(self, machine: str = TYPE, **want: int) -> None:
        """Wait until sleepers of a type hold room on exactly these nodes, by the nodes' numbers: `n1=1`."""
        named = {self.nodes[int(number.removeprefix("n")) - 1]: count for number, count in want.items()}

        def held() -> bool:
            have = self.rooms(machine)
            assert have == named, f"{named} wanted, there is {dict(have)}"
            return True

        waiting.eventually(held, within_seconds=30)

    def wait_for_usage(self, machine: str = TYPE, **want: int) -> None:
        """Wait until the Machine says this of a type."""

        def said() -> bool:
            have = self.usage(machine)
            assert want.items() <= have.items(), f"{want} wanted, {have} is said"
            return True

        waiting.eventually(said, within_seconds=30)

    def wait_for_place(self, name: str) -> str:
        """Wait until a guest runs, and return its node."""

        def placed() -> str | None:
            pod = self.guest(name)
            assert pod["status"]["phase"] == "Running", f"{name} is {pod['status']}"
            return node_of(pod)

        return waiting.eventually(placed, within_seconds=30) or ""

    def wait_for_told(self, name: str, reason: str) -> str:
        """Wait until a guest was told something; return the words."""
        return waiting.eventually(lambda: self.events("Pod", name, self.group).get(reason), within_seconds=30) or ""

    # The end

    def clear(self) -> None:
        """Remove guests, the Machine and nodes; fail if anything of the group is left."""
        for pod in self.api.get(self.pods)["items"]:
            self._remove(f"{self.pods}/{pod['metadata']['name']}")
        self._remove(f"{MACHINES}/{self.group}")
        waiting.eventually(lambda: not self.left_over(), within_seconds=30)
        for name in self.nodes:
            self._remove(f"{NODES}/{name}")
        self._remove(f"/api/v1/namespaces/{self.group}")

    def left_over(self) -> list[str]:
        """Name what the runtime made for the group and is still there."""
        query = {"labelSelector": f"{keys.MACHINE_GROUP}={self.group}"}
        made = [item for path in (STATEFUL_SETS, SERVICES, SLEEPERS) for item in self.api.get(path, query)["items"]]
        pool = self.api.request("GET", f"{NODE_POOLS}/{names.machine_node_pool(self.group)}")
        pools = [names.machine_node_pool(self.group)] if pool.ok else []
        marked = [f"{name}: {self.marks(name)}" for name in self.nodes if self.marks(name)]
        return [*(each["metadata"]["name"] for each in made), *pools, *marked]

    def _remove(self, path: str) -> None:
        try:
            self.api.request("DELETE", path, {"propagationPolicy": "Background", "gracePeriodSeconds": 0})
        except api.RefusedError:  # it is gone
            return


@contextlib.contextmanager
def prepared(directory: Path, options: Options) -> Iterator[Plane]:
    """A plane with our definitions and policies, and the ServiceAccount that these take for the runtime."""
    with Plane.start(directory, options) as plane:
        plane.kubectl("apply", "--server-side", "-f", "-", stdin=manifests.dump(crds.all_crds()))
        served = [kinds.custom(kind).collection() for kind in resources.KINDS]
        waiting.eventually(lambda: all(plane.api.request("GET", path).ok for path in served))
        # The garbage collector looks for new kinds every half minute only: what they own would stay until then.
        plane.restart(Component.CONTROLLER_MANAGER)
        plane.kubectl("create", "namespace", RUNTIME_NAMESPACE)
        plane.kubectl("create", "serviceaccount", RUNTIME_ACCOUNT, "-n", RUNTIME_NAMESPACE)
        subject = f"--serviceaccount={RUNTIME_NAMESPACE}:{RUNTIME_ACCOUNT}"
        plane.kubectl("create", "clusterrolebinding", "runtime", "--clusterrole=cluster-admin", subject)
        plane.kubectl("apply", "--server-side", "-f", "-", stdin=manifests.dump(policies.manifests(RUNTIME)))
        yield plane


def machine_type(name: str = TYPE, *, cpu: str = "2", memory: str = "4Gi", available: int = 1, **spec: Any) -> Object:
    """A machine type as a Machine has it."""
    return {"name": name, "spec": {"cpu": cpu, "memory": memory, **spec}, "available": available}


def entry(node: str, machine: str = TYPE, *, mode: str = "ready", taint: bool = False) -> Object:
    """A node's entry of a Machine."""
    return {"name": node, "mode": mode, "taint": taint, "machineType": [{"name": machine}]}


def selected(labels: Mapping[str, str], machine: str = TYPE, *, taint: bool = False) -> Object:
    """An entry of a Machine for all nodes with these labels."""
    return {"nodeSelector": dict(labels), "mode": "ready", "taint": taint, "machineType": [{"name": machine}]}


def replica(
    plane: Plane, kubeconfig: Path, controllers: str = "machines", *flags: str, **environment: str
) -> replicas.Replica:
    """Start the runtime with these controllers; it ends with the test."""
    return replicas.Replica(
        kubeconfig,
        RUNTIME_NAMESPACE,
        unique(),
        *("--controllers", controllers, *flags),
        program=replicas.RUNTIME,
        environment={**plane.environment, **environment},
    )


def node_of(pod: Mapping[str, Any]) -> str | None:
    """Return where a pod is bound; None: nowhere."""
    found: str | None = pod["spec"].get("nodeName")
    return found


def gates_of(pod: Mapping[str, Any]) -> set[str]:
    """Return the names of a pod's gates."""
    return {gate["name"] for gate in pod["spec"].get("schedulingGates", ())}


def unique() -> str:
    """Return a name for a group that no other test uses."""
    return f"group-{secrets.token_hex(3)}"
