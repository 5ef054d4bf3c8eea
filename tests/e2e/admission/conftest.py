"""Queued jobs on real parts: a plane of the folder's own, all our policies in force, and the runtime as a process.

Every test on a `site` is audited: all that happened meanwhile is replayed, and must be right at each moment.
"""

import contextlib
import secrets
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from autoscaler.api import crds, keys, manifests, policies, resources
from autoscaler.kube import kinds
from tests import builders
from tests.e2e import groups, rays, replicas, waiting
from tests.e2e.admission import auditor, ground, recorder
from tests.e2e.admission.ground import Ground
from tools.local import kubeconfig, tokens
from tools.local.api import Api
from tools.local.components import USUAL, Component, Options
from tools.local.plane import Plane

COMPONENTS = USUAL | {Component.KUBERAY}
FLAGS = ("--controllers", "admission")
"""How every replica of these tests is started."""
Start = Callable[..., replicas.Replica]


@pytest.fixture(scope="session")
def admission_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """A plane with our definitions and policies, nodes, and Ray's operator; instances are played too."""
    with Plane.start(tmp_path_factory.mktemp("admission"), Options(components=COMPONENTS)) as plane:
        _define(plane)
        _police(plane)
        plane.api.create("/api/v1/nodes", rays.node("usual", **{ground.NODE_LABEL: ground.FLAVOR}))
        flavor = builders.resource("ResourceFlavor", name=ground.FLAVOR)
        flavor["spec"] = {"nodeLabels": {ground.NODE_LABEL: ground.FLAVOR}}
        plane.api.create(f"{ground.CUSTOM}/resourceflavors", flavor)
        waiting.eventually(lambda: groups.is_schedulable(plane.api.get("/api/v1/nodes/usual")))
        yield plane


@pytest.fixture(scope="session")
def runtime_kubeconfig(admission_plane: Plane, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The kubeconfig of the ServiceAccount that the policies take for the runtime."""
    path = tmp_path_factory.mktemp("runtime") / "kubeconfig"
    tokens.write_kubeconfig(
        admission_plane.api, path, namespace=ground.RUNTIME_NAMESPACE, service_account=ground.RUNTIME_ACCOUNT
    )
    return path


@pytest.fixture(scope="session")
def runtime_api(runtime_kubeconfig: Path) -> Iterator[Api]:
    """A connection as the runtime."""
    with Api(kubeconfig.read(runtime_kubeconfig)) as client:
        yield client


@pytest.fixture(scope="module")
def runtime(admission_plane: Plane, runtime_kubeconfig: Path) -> Iterator[replicas.Replica]:
    """The runtime that the tests of a module share. A module whose tests start their own replicas must not use it."""
    with replicas.Replica(
        runtime_kubeconfig,
        ground.RUNTIME_NAMESPACE,
        rays.unique("runtime"),
        *FLAGS,
        program=replicas.RUNTIME,
        environment=admission_plane.environment,
    ) as replica:
        yield replicas.ready(replica)
        assert replica.process.poll() is None, replica.log.read_text()
        assert not replica.entries("cycle_failed"), replica.entries("cycle_failed")
        replica.send(signal.SIGTERM)  # it lets go of its Lease: the next module's need not wait for that to end
        replica.wait()


@pytest.fixture
def start(admission_plane: Plane, runtime_kubeconfig: Path) -> Iterator[Start]:
    """Start replicas of the runtime that end with the test."""
    with contextlib.ExitStack() as stack:

        def begin(identity: str, *flags: str, config: Path = runtime_kubeconfig) -> replicas.Replica:
            return stack.enter_context(
                replicas.Replica(
                    config,
                    ground.RUNTIME_NAMESPACE,
                    identity,
                    *FLAGS,
                    *flags,
                    program=replicas.RUNTIME,
                    environment=admission_plane.environment,
                )
            )

        yield begin


@pytest.fixture
def alone(admission_plane: Plane, runtime_api: Api) -> Iterator[Ground]:
    """A namespace for queued jobs, where nobody handles them unless the test starts a replica; audited."""
    namespace = f"jobs-{secrets.token_hex(3)}"
    admission_plane.api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    account = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
    waiting.eventually(lambda: admission_plane.api.get(account))
    made = Ground(plane=admission_plane, runtime=runtime_api, namespace=namespace)
    try:
        with recorder.Recorder(admission_plane) as recording:
            made.recording = recording
            yield made
            auditor.require(recording.history())
    finally:
        made.clear()
        admission_plane.api.delete(f"/api/v1/namespaces/{namespace}")


@pytest.fixture
def site(runtime: replicas.Replica, alone: Ground) -> Ground:
    """A namespace for queued jobs that the module's runtime handles; audited."""
    del runtime
    return alone


def _define(plane: Plane) -> None:
    plane.kubectl("apply", "--server-side", "-f", "-", stdin=manifests.dump(crds.all_crds()))
    served = [kinds.custom(kind).collection() for kind in resources.KINDS] + [f"{rays.API}/rayclusters"]
    waiting.eventually(lambda: all(plane.api.request("GET", path).ok for path in served))
    # The garbage collector looks for new kinds every half minute only: what they own would stay until then.
    plane.restart(Component.CONTROLLER_MANAGER)


def _police(plane: Plane) -> None:
    plane.kubectl("create", "namespace", ground.RUNTIME_NAMESPACE)
    plane.kubectl("create", "serviceaccount", ground.RUNTIME_ACCOUNT, "-n", ground.RUNTIME_NAMESPACE)
    subject = f"--serviceaccount={ground.RUNTIME_NAMESPACE}:{ground.RUNTIME_ACCOUNT}"
    plane.kubectl("create", "clusterrolebinding", "runtime", "--clusterrole=cluster-admin", subject)
    plane.kubectl("apply", "--server-side", "-f", "-", stdin=manifests.dump(policies.manifests(ground.RUNTIME)))
    waiting.eventually(lambda: _are_in_force(plane.api))


def _are_in_force(api: Api) -> bool:
    """Tell whether the policies about queued jobs answer: each comes into force by itself, after seconds."""
    query = {"dryRun": "All"}
    labels = {keys.QUEUE_NAME: "probe"}
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "app:1"}]}}
    job = {"metadata": {"name": "probe", "labels": labels}, "spec": {"template": template}}
    made = api.request("POST", "/apis/batch/v1/namespaces/default/jobs", job, query=query).required()
    assert made["spec"]["suspend"]
    assert ground.gates_of(made["spec"]["template"])
    ray = rays.cluster("probe", rays.group(), labels=labels)
    made = api.request("POST", f"{rays.API}/namespaces/default/rayclusters", ray, query=query).required()
    assert made["spec"]["suspend"]
    for each in (made["spec"]["headGroupSpec"], *made["spec"]["workerGroupSpecs"]):
        assert ground.gates_of(each["template"])
    workload = builders.resource("Workload")
    forged = api.request("POST", f"{ground.CUSTOM}/namespaces/default/workloads", workload, query=query)
    return forged.status == 422
