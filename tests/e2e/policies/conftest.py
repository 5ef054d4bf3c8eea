"""A plane of the folder's own with all our policies in force, those about the runtime's identity included."""

from collections.abc import Iterator

import pytest

from autoscaler.api import crds, keys, manifests, policies, resources
from autoscaler.kube import kinds
from tests import builders
from tests.e2e import waiting
from tests.e2e.policies import ground, jobs, machines
from tests.e2e.policies.ground import RUNTIME_ACCOUNT, RUNTIME_NAMESPACE, Ground
from tests.e2e.policies.machines import MachineGround
from tools.local.components import USUAL, Component, Options
from tools.local.plane import Plane

COMPONENTS = USUAL - {Component.MOTO, Component.NODE_REGISTRAR}


@pytest.fixture(scope="session")
def policed_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    with Plane.start(tmp_path_factory.mktemp("policed"), Options(components=COMPONENTS)) as plane:
        plane.kubectl("apply", "--server-side", "-f", "-", stdin=manifests.dump(crds.all_crds()))
        served = [kinds.custom(kind).collection() for kind in resources.KINDS]
        waiting.eventually(lambda: all(plane.api.request("GET", path).ok for path in served))
        plane.api.create(f"{ground.CUSTOM}/instancepools", ground.unowned_pool(ground.LEGACY))
        plane.api.create(jobs.JOBS.format("default"), jobs.job(jobs.LEGACY, parallelism=0))
        jobs.define_ray_clusters(plane.api)
        plane.kubectl("create", "namespace", RUNTIME_NAMESPACE)
        plane.kubectl("create", "serviceaccount", RUNTIME_ACCOUNT, "-n", RUNTIME_NAMESPACE)
        subject = f"--serviceaccount={RUNTIME_NAMESPACE}:{RUNTIME_ACCOUNT}"
        plane.kubectl("create", "clusterrolebinding", "runtime", "--clusterrole=cluster-admin", subject)
        plane.kubectl(
            "apply", "--server-side", "-f", "-", stdin=manifests.dump(policies.manifests(ground.RUNTIME_IDENTITY))
        )
        _await_policies(plane)
        yield plane


@pytest.fixture
def here(policed_plane: Plane) -> Iterator[Ground]:
    """What a test makes, cleared away in the end."""
    made = Ground(plane=policed_plane)
    yield made
    made.close()


@pytest.fixture(scope="session")
def machine_ground(policed_plane: Plane) -> Iterator[MachineGround]:
    """Namespaces for guests, and a catalogue."""
    yield from machines.open_ground(policed_plane)


def _await_policies(plane: Plane) -> None:
    """Wait until every policy answers: each comes into force by itself, seconds after it was made."""
    made = Ground(plane=plane)
    namespace = made.add_namespace("probe", scope="probe")
    made.add_scope("probe", probe=1)
    made.add_pool("probe", owner="probe")
    made.add_pool("foreign", owner="other")
    workload = builders.resource("Workload")
    bad_pods = [
        ground.pod("p", tolerations=[ground.toleration("foreign")]),
        ground.pod("p", tolerations=[ground.toleration(None)]),
    ]
    bad_objects = [
        ("instancepools", ground.unowned_pool("bad")),
        ("scopes", ground.scope("bad", {"probe": 1})),
        ("namespaces/default/workloads", workload),
    ]
    queued = [(jobs.JOBS, jobs.job("probe")), (jobs.RAY_CLUSTERS, jobs.ray_cluster("probe"))]
    stamped = ground.pod("p")
    stamped["metadata"]["annotations"] = {keys.JOB_UID: "forged"}
    bad_pods.append(stamped)

    def are_in_force() -> bool:
        spec = made.would_be(namespace)
        assert "affinity" in spec
        assert ground.toleration("probe") in spec["tolerations"]
        assert [made.try_pod(namespace, body).status for body in bad_pods] == [422] * 3
        query = {"dryRun": "All"}
        for path, body in bad_objects:
            assert plane.api.request("POST", f"{ground.CUSTOM}/{path}", body, query=query).status == 422, path
        for path, body in queued:
            answer = plane.api.request("POST", path.format("default"), body, query=query)
            assert jobs.gates_of(answer.required())[0] == [jobs.GATE], path
        return True

    waiting.eventually(are_in_force)
    made.close()
