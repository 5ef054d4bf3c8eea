"""Capacity on real parts: a plane of the folder's own, moto behind the ASG rules, and the runtime as a process."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from autoscaler.api import crds, manifests, version
from tests.e2e import replicas, waiting
from tests.e2e.capacity.site import Site
from tools.local.asg.asg_judge import Pace
from tools.local.asg.asg_rules import AsgRules
from tools.local.components import Options
from tools.local.plane import Plane

BOOT_SECONDS = 1.0
"""From a launch to a node: long enough for plans to be made in between."""
Start = Callable[..., replicas.Replica]


@pytest.fixture(scope="session")
def capacity_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """A plane with our definitions. Waiting pods are everybody's matter here, so no other folder shares it."""
    options = Options(boot_seconds=BOOT_SECONDS, audit=True)
    with Plane.start(tmp_path_factory.mktemp("capacity"), options) as plane:
        plane.kubectl("apply", "--server-side", "-f", "-", stdin=manifests.dump(crds.all_crds()))
        path = f"/apis/{version.GROUP_VERSION}/instancepools"
        waiting.eventually(lambda: plane.api.request("GET", path).ok)
        yield plane


@pytest.fixture(scope="session")
def asg_rules(capacity_plane: Plane) -> Iterator[AsgRules]:
    with AsgRules.start(capacity_plane.aws_endpoint, Pace(pending_seconds=0.5)) as judge:
        yield judge


@contextlib.contextmanager
def opened(plane: Plane, asg_rules: AsgRules) -> Iterator[Site]:
    """A site that is cleared away in the end."""
    made = Site(plane=plane, asg_rules=asg_rules)
    try:
        made.open()
        yield made
    finally:
        made.close()


@pytest.fixture
def site(capacity_plane: Plane, asg_rules: AsgRules) -> Iterator[Site]:
    """A site of the test's own."""
    with opened(capacity_plane, asg_rules) as made:
        yield made


@pytest.fixture
def start(tmp_path: Path, site: Site) -> Iterator[Start]:
    """Start replicas that scale the site's groups and end with the test."""
    with contextlib.ExitStack() as stack:

        def begin(*flags: str, namespace: str | None = None, pod: str = "one") -> replicas.Replica:
            return replicas.ready(stack.enter_context(replica(site, tmp_path, *flags, namespace=namespace, pod=pod)))

        yield begin


@contextlib.contextmanager
def replica(
    site: Site,
    directory: Path,
    *flags: str,
    namespace: str | None = None,
    pod: str = "one",
    endpoint: str | None = None,
) -> Iterator[replicas.Replica]:
    """Run the runtime for a site, on its AWS or another endpoint; a cycle that failed fails the test."""
    kubeconfig = directory / "kubeconfig"
    kubeconfig.touch(mode=0o600)
    kubeconfig.write_text(site.plane.kubeconfig.read_text())
    environment = {**site.plane.environment, "AWS_ENDPOINT_URL": endpoint or site.asg_rules.url}
    with replicas.Replica(
        kubeconfig,
        namespace or site.namespace,
        site.id,
        *("--controllers", "capacity", "--cluster", site.cluster, "--pod-name", pod),
        *flags,
        program=replicas.RUNTIME,
        environment=environment,
    ) as made:
        yield made
        assert not made.entries("cycle_failed"), made.entries("cycle_failed")
