"""What Kubernetes' own edit and admin may do with our kinds in a namespace, once our roles are added to them."""

import pytest

from components import rbac
from tests import builders
from tests.e2e import waiting
from tests.e2e.policies.ground import CUSTOM, Ground
from tools.local.api import Api, Response

RBAC = "/apis/rbac.authorization.k8s.io/v1"
DRY = {"dryRun": "All"}
HOME = "tenants"
FORBIDDEN = 403


@pytest.fixture
def site(here: Ground) -> Ground:
    """A namespace with an editor and an admin."""
    for name, (labels, rules) in rbac.people_roles().items():
        here.make(f"{RBAC}/clusterroles", {"metadata": {"name": name, "labels": dict(labels)}, "rules": list(rules)})
    here.add_namespace(HOME)
    for role in ("edit", "admin"):
        here.make(f"/api/v1/namespaces/{HOME}/serviceaccounts", {"metadata": {"name": role}})
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
        subject = {"kind": "ServiceAccount", "namespace": HOME, "name": role}
        binding = {"metadata": {"name": role}, "roleRef": reference, "subjects": [subject]}
        here.make(f"{RBAC}/namespaces/{HOME}/rolebindings", binding)
    return here


def make(api: Api, kind: str) -> Response:
    body = {**builders.resource(kind), "metadata": {"name": "new"}}
    return api.request("POST", f"{CUSTOM}/namespaces/{HOME}/{kind.lower()}s", body, query=DRY)


@pytest.mark.accept("S23")
def test_queues_are_made_by_admins_and_only_read_by_editors(site: Ground) -> None:
    queues = f"{CUSTOM}/namespaces/{HOME}/localqueues"
    site.make(queues, {**builders.resource("LocalQueue"), "metadata": {"name": "q"}})
    merge = "application/merge-patch+json"
    with site.as_account(HOME, "edit") as editor, site.as_account(HOME, "admin") as admin:
        waiting.eventually(lambda: make(admin, "LocalQueue").ok and make(admin, "WorkerPool").ok)
        waiting.eventually(lambda: make(editor, "WorkerPool").ok)
        assert editor.request("GET", f"{queues}/q").ok
        tries = [
            make(editor, "LocalQueue"),
            editor.request("PATCH", f"{queues}/q", {"metadata": {"labels": {"a": "b"}}}, content_type=merge),
            editor.request("DELETE", f"{queues}/q"),
            editor.request("DELETE", queues),
        ]
        assert [answer.status for answer in tries] == [FORBIDDEN] * 4
        assert make(admin, "Workload").status == make(editor, "Workload").status == FORBIDDEN
        assert admin.request("DELETE", f"{queues}/q", query=DRY).ok
