"""Every way to ask a queue that is legal is kept by the real API server as it was written."""

import pytest

from autoscaler.api import crds, manifests, resources, version
from tests import builders
from tests.e2e import waiting
from tools.local.plane import Plane

POOLS = f"/apis/{version.GROUP_VERSION}/namespaces/default/workerpools"
SQS = "https://sqs.eu-west-1.amazonaws.com/123456789012/jobs"


@pytest.fixture(scope="module")
def api(plane: Plane) -> Plane:
    """The plane with the definition of worker pools."""
    plane.kubectl("apply", "--server-side", "-f", "-", stdin=manifests.dump([crds.crd(resources.WorkerPool)]))
    waiting.eventually(lambda: plane.api.request("GET", POOLS).ok)
    return plane


@pytest.mark.parametrize(
    "source",
    [
        {"endpoint": "https://web/jobs"},
        {"endpoint": "https://web/jobs", "secretName": "key", "header": "X-Api-Key", "headerFormat": "{key}"},
        {"endpoint": "https://web/jobs", "header": "x" * 128, "headerFormat": "{key}" + "~" * 251},
        {"endpoint": "https://web/jobs", "header": "a!#$%&'*+-.^_`|~9", "headerFormat": 'Token "{key}", v=1'},
        {"endpoint": "https://web/jobs", "header": "Hostess"},
        {"endpoint": "https://web/jobs", "field": "queues.0.waiting jobs"},
        {"endpoint": "https://web/jobs", "field": "f" * 256},
        {"type": "sqs", "endpoint": SQS, "secretName": "key"},
        {"type": "prometheus", "endpoint": "http://prometheus:9090", "query": "sum(jobs)"},
    ],
    ids=lambda source: str(source)[:80],
)
def test_a_source_that_is_legal_is_kept_as_it_was_written(api: Plane, source: dict[str, str]) -> None:
    manifest = builders.resource("WorkerPool", name="legal", queue__source=source)
    api.api.create(POOLS, manifest)
    try:
        stored = api.api.get(f"{POOLS}/legal")
    finally:
        api.api.delete(f"{POOLS}/legal")
    assert stored["spec"]["queue"]["source"] == {"type": "http", **source}
    want = resources.WorkerPool.model_validate(manifest).spec
    assert resources.WorkerPool.model_validate(stored).spec == want
