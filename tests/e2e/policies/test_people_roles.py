"""What Kubernetes' own edit and admin may do with our kinds in a namespace, once our roles are added to them."""

from collections.abc import Iterator

import pytest

from components.access import rbac
from tests import builders
from tests.e2e import waiting
from tests.e2e.policies.ground import CUSTOM, RUNTIME_ACCOUNT, RUNTIME_NAMESPACE, Ground
from tools.local.api import Api, Response
from tools.local.plane import Plane

RBAC = "/apis/rbac.authorization.k8s.io/v1"
DRY = {"dryRun": "All"}
HOME = "tenants"
FORBIDDEN, DENIED = 403, 422
MERGE = "application/merge-patch+json"


@pytest.fixture(scope="module")
def site(policed_plane: Plane) -> Iterator[Ground]:
    """A namespace with an editor and an admin."""
    here = Ground(plane=policed_plane)
    for name, (labels, rules) in rbac.people_roles().items():
        here.make(f"{RBAC}/clusterroles", {"metadata": {"name": name, "labels": dict(labels)}, "rules": list(rules)})
    here.add_namespace(HOME)
    for role in ("edit", "admin"):
        here.make(f"/api/v1/namespaces/{HOME}/serviceaccounts", {"metadata": {"name": role}})
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
        subject = {"kind": "ServiceAccount", "namespace": HOME, "name": role}
        binding = {"metadata": {"name": role}, "roleRef": reference, "subjects": [subject]}
        here.make(f"{RBAC}/namespaces/{HOME}/rolebindings", binding)
    yield here
    here.close()


def make(api: Api, kind: str) -> Response:
    body = {**builders.resource(kind), "metadata": {"name": "new"}}
    return api.request("POST", f"{CUSTOM}/namespaces/{HOME}/{kind.lower()}s", body, query=DRY)


@pytest.mark.accept("S23")
def test_queues_are_made_by_admins_and_only_read_by_editors(site: Ground) -> None:
    queues = f"{CUSTOM}/namespaces/{HOME}/localqueues"
    site.make(queues, {**builders.resource("LocalQueue"), "metadata": {"name": "q"}})
    with site.as_account(HOME, "edit") as editor, site.as_account(HOME, "admin") as admin:
        waiting.eventually(lambda: make(admin, "LocalQueue").ok and make(admin, "WorkerPool").ok)
        waiting.eventually(lambda: make(editor, "WorkerPool").ok)
        assert editor.request("GET", f"{queues}/q").ok
        tries = [
            make(editor, "LocalQueue"),
            editor.request("PATCH", f"{queues}/q", {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE),
            editor.request("DELETE", f"{queues}/q"),
            editor.request("DELETE", queues),
        ]
        assert [answer.status for answer in tries] == [FORBIDDEN] * 4
        assert make(admin, "Workload").status == make(editor, "Workload").status == FORBIDDEN
        assert admin.request("DELETE", f"{queues}/q", query=DRY).ok


@pytest.mark.accept("E20", part="editors change spec.active of Workloads and nothing else")
def test_editors_take_a_job_out_of_its_queue_and_change_nothing_else_of_its_workload(site: Ground) -> None:
    path = f"{CUSTOM}/namespaces/{HOME}/workloads"
    workload = {**builders.resource("Workload"), "metadata": {"name": "w"}}
    forged = [
        {"spec": {"priority": 1000}},
        {"spec": {"queueName": "other"}},
        {"spec": {"podSets": []}},
        {"spec": {"active": True, "priority": 1}},
        {"metadata": {"labels": {"a": "b"}}},
        {"metadata": {"annotations": {"a": "b"}}},
        {"metadata": {"finalizers": ["a.b/c"]}},
        {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]}},
    ]
    with site.as_account(HOME, "edit") as editor, site.as_account(RUNTIME_NAMESPACE, RUNTIME_ACCOUNT) as runtime:
        runtime.create(path, workload)

        def patch(body: object, place: str = "w") -> Response:
            return editor.request("PATCH", f"{path}/{place}", body, content_type=MERGE)

        for active in (False, True):
            waiting.eventually(lambda active=active: patch({"spec": {"active": active}}).ok)  # type: ignore[misc]
            assert editor.get(f"{path}/w")["spec"]["active"] is active
        answers = [patch(body) for body in forged]
        assert [answer.status for answer in answers] == [DENIED] * len(forged)
        assert all("spec.active" in answer.body["message"] for answer in answers[:2])
        assert patch({"status": {"position": 1}}, "w/status").status == FORBIDDEN
        assert editor.request("DELETE", f"{path}/w").status == FORBIDDEN
        assert make(editor, "Workload").status == FORBIDDEN
        status = {"status": {"position": 1}}
        answer = site.api.request("PATCH", f"{path}/w/status", status, content_type=MERGE)
        assert (answer.status, "spec.active" in answer.body["message"]) == (DENIED, True)
        assert runtime.merge(f"{path}/w/status", status)["status"] == status["status"]
        runtime.delete(f"{path}/w")
