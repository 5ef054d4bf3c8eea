"""Guests on the real API server: what they get, what is refused to them, and who may say what."""

from collections.abc import Iterator
from typing import Any

import pytest

from autoscaler.api import keys, machine_pods
from autoscaler.api.machine_catalogue import NodeLabel
from autoscaler.api.policies.machines import machine_guests, machine_known
from tests.e2e import waiting
from tests.e2e.policies import ground, machines
from tests.e2e.policies.ground import RUNTIME, RUNTIME_NAMESPACE, Object
from tests.e2e.policies.machines import CATALOGUE, ELSEWHERE, GUESTS, MERGE, MachineGround, guest
from tools.local.api import Api, Response

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
OTHER_TOLERATIONS = {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}


def path_of(name: str, namespace: str = GUESTS) -> str:
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


def patch(api: Api, name: str, body: Object, *, subresource: str = "") -> Response:
    return api.request("PATCH", path_of(name) + subresource, body, content_type=MERGE, query={"dryRun": "All"})


def said(answer: Response) -> str:
    assert answer.status == 422, answer.body
    message: str = answer.body["message"]
    return message


@pytest.fixture
def stored(machine_ground: MachineGround) -> Iterator[str]:
    """A guest that waits behind its gate."""
    name = f"guest-{machine_ground.ground.id}"
    machine_ground.ground.api.create(f"/api/v1/namespaces/{GUESTS}/pods", guest(name))
    yield name
    machine_ground.ground.api.request("DELETE", path_of(name), {"gracePeriodSeconds": 0})


@pytest.mark.accept("M2")
@pytest.mark.accept("M5", part="guests")
@pytest.mark.accept("R6", part="guests")
def test_a_guest_gets_its_machines_resources_and_what_takes_it_there(machine_ground: MachineGround) -> None:
    got = machine_ground.ground.try_pod(GUESTS, guest("g", machine_type="product")).required()
    amounts = {"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "2"}
    label = NodeLabel(keys.GPU_PRODUCT, "RTX-3090")
    assert got["metadata"]["labels"][keys.POD_ROLE] == "guest"
    assert got["spec"]["containers"][0]["resources"] == {"requests": amounts, "limits": amounts}
    assert got["status"]["qosClass"] == "Guaranteed"
    assert [each for each in got["spec"]["tolerations"] if each["key"] not in OTHER_TOLERATIONS] == (
        machine_pods.tolerations("general", "product")
    )
    want = [{"matchExpressions": machine_pods.node_requirements("general", "product", label)}]
    assert got["spec"]["affinity"]["nodeAffinity"][REQUIRED] == {"nodeSelectorTerms": want}
    assert got["spec"]["schedulingGates"] == [{"name": keys.MACHINE_GATE}]


@pytest.mark.accept("M2")
def test_a_deployment_as_the_seed_writes_it_makes_guests_that_wait(machine_ground: MachineGround) -> None:
    """The seed's guests carry by hand what the injection adds, which is then there once."""
    name, expressions = f"train-{machine_ground.ground.id}", machine_pods.node_requirements("general", "medium", None)
    terms = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}}
    tolerations = machine_pods.tolerations("general", "medium")
    body = guest(name, labels={keys.POD_ROLE: "guest"}, affinity=terms, tolerations=tolerations)
    labels = body["metadata"]["labels"]
    template = {"metadata": {"labels": labels}, "spec": body["spec"]}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    machine_ground.ground.make(
        f"/apis/apps/v1/namespaces/{GUESTS}/deployments", {"metadata": {"name": name}, "spec": spec}
    )

    def pods() -> list[Object]:
        found = machine_ground.ground.api.get(
            f"/api/v1/namespaces/{GUESTS}/pods", {"labelSelector": "pod-template-hash"}
        )
        made: list[Object] = found["items"]
        return made if len(made) == 2 else []

    for pod in waiting.eventually(pods):
        assert pod["spec"]["affinity"] == terms
        assert [each for each in pod["spec"]["tolerations"] if each["key"] not in OTHER_TOLERATIONS] == tolerations
        assert pod["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "6", "memory": "48Gi"}
        assert pod["spec"]["schedulingGates"] == [{"name": keys.MACHINE_GATE}]
        assert pod["status"]["conditions"][0]["reason"] == "SchedulingGated"


def test_guests_of_a_scope_get_what_the_scope_gives_as_well(machine_ground: MachineGround) -> None:
    made = ground.Ground(plane=machine_ground.ground.plane)
    scope, pool = f"team-{made.id}", f"pool-{made.id}"
    made.add_pool(pool, owner=scope)
    made.add_scope(scope, **{pool: 10})
    namespace = made.add_namespace(f"guests-{made.id}", scope)
    made.api.merge(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": machines.NAMESPACES[GUESTS]}})
    made.await_toleration(namespace, pool)
    made.await_terms(namespace, 2)

    def injected() -> Object:
        stored: Object = made.try_pod(namespace, guest("g")).required()["spec"]
        return stored if "schedulingGates" in stored else {}

    try:
        spec = waiting.eventually(injected)
        want = [ground.toleration(pool), *machine_pods.tolerations("general", "medium")]
        assert sorted(map(str, want)) == sorted(
            str(each) for each in spec["tolerations"] if each["key"] not in OTHER_TOLERATIONS
        )
        assert len(ground.terms(spec)) == 2
        terms = spec["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
        assert terms == [{"matchExpressions": machine_pods.node_requirements("general", "medium", None)}]
    finally:
        made.close()


@pytest.mark.accept("M2")
@pytest.mark.parametrize("namespace", [ELSEWHERE, machines.DISABLED])
def test_elsewhere_the_labels_mean_nothing(machine_ground: MachineGround, namespace: str) -> None:
    got = machine_ground.ground.try_pod(namespace, guest("g", group="nobody")).required()
    assert keys.POD_ROLE not in got["metadata"]["labels"]
    assert got["spec"]["containers"][0]["resources"] == ground.pod("g")["spec"]["containers"][0]["resources"]
    assert "schedulingGates" not in got["spec"]
    assert "affinity" not in got["spec"]


@pytest.mark.accept("M2")
def test_an_unknown_group_or_type_is_denied_with_the_known_ones_named(machine_ground: MachineGround) -> None:
    api = machine_ground.ground
    assert "no machine group 'nobody'; the groups are: general, spare" in said(
        api.try_pod(GUESTS, guest("g", group="nobody"))
    )
    assert "its types are: child, family, machine, medium, odd, product" in said(
        api.try_pod(GUESTS, guest("g", machine_type="huge"))
    )


@pytest.mark.accept("M2")
def test_a_container_that_is_not_there_or_a_node_of_ones_own_is_denied(machine_ground: MachineGround) -> None:
    chosen = guest("g", labels={keys.INJECTING_CONTAINER: "nobody"})
    assert "the pod has no container 'nobody'" in said(machine_ground.ground.try_pod(GUESTS, chosen))
    assert machine_guests.HAS_NODE in said(machine_ground.ground.try_pod(GUESTS, guest("g", nodeName="node")))


@pytest.mark.accept("M2")
@pytest.mark.parametrize("label", [keys.MACHINE_GROUP, keys.MACHINE_TYPE])
def test_one_label_alone_is_let_in_untouched_with_a_warning(machine_ground: MachineGround, label: str) -> None:
    body = ground.pod("half", labels={label: "medium"})
    answer = machine_ground.ground.try_pod(GUESTS, body)
    assert any(machine_guests.HALF_LABELLED in warning for warning in answer.warnings)
    got = answer.required()
    assert got["metadata"]["labels"] == {label: "medium"}
    assert got["spec"]["containers"][0]["resources"] == body["spec"]["containers"][0]["resources"]
    assert "schedulingGates" not in got["spec"]
    for unlabelled_or_whole in (ground.pod("p"), guest("g")):
        assert not machine_ground.ground.try_pod(GUESTS, unlabelled_or_whole).warnings
    assert not machine_ground.ground.try_pod(ELSEWHERE, body).warnings


@pytest.mark.accept("M2", part="labels stay")
@pytest.mark.parametrize("subresource", ["", "/status"])
def test_a_guest_does_not_become_another_later(machine_ground: MachineGround, stored: str, subresource: str) -> None:
    for label in (keys.MACHINE_GROUP, keys.MACHINE_TYPE, keys.POD_ROLE, keys.INJECTING_CONTAINER):
        for value in ("spare", None if label != keys.INJECTING_CONTAINER else "main"):
            body = {"metadata": {"labels": {label: value}}}
            for api in (machine_ground.ground.api, machine_ground.runtime):
                assert machine_guests.LABELS_KEPT in said(patch(api, stored, body, subresource=subresource))
    assert patch(machine_ground.ground.api, stored, {"metadata": {"labels": {"app": "a"}}}, subresource=subresource).ok


@pytest.mark.accept("M2", part="labels stay")
def test_a_pod_does_not_become_a_guest_later(machine_ground: MachineGround) -> None:
    name = f"plain-{machine_ground.ground.id}"
    machine_ground.ground.add_pod(GUESTS, name, schedulingGates=[{"name": "example.com/wait"}])
    labels = {keys.MACHINE_GROUP: "general", keys.MACHINE_TYPE: "medium"}
    assert machine_guests.LABELS_KEPT in said(patch(machine_ground.ground.api, name, {"metadata": {"labels": labels}}))


@pytest.mark.accept("M2", part="labels stay")
def test_a_binding_gives_a_pod_none_of_the_labels(machine_ground: MachineGround) -> None:
    """The API server copies a binding's labels to the pod."""
    name = f"bound-{machine_ground.ground.id}"
    machine_ground.ground.add_pod(ELSEWHERE, name, schedulerName="example.com/nobody")
    target = {"kind": "Node", "name": "node"}
    query = {"dryRun": "All"}
    pods = f"/api/v1/namespaces/{ELSEWHERE}"
    for path in (f"{pods}/pods/{name}/binding", f"{pods}/bindings"):
        for key in (keys.MACHINE_GROUP, keys.MACHINE_TYPE, keys.POD_ROLE, keys.INJECTING_CONTAINER):
            forged = {"metadata": {"name": name, "labels": {key: "general"}}, "target": target}
            assert machine_guests.LABELS_KEPT in said(
                machine_ground.ground.api.request("POST", path, forged, query=query)
            )
        for plain in ({"name": name}, {"name": name, "labels": {"app": "a"}}):
            body = {"metadata": plain, "target": target}
            assert machine_ground.ground.api.request("POST", path, body, query=query).ok


@pytest.mark.accept("M14", part="guests do not open their own gate")
def test_the_runtime_alone_opens_the_gate_and_writes_its_notes(machine_ground: MachineGround, stored: str) -> None:
    opening = {"spec": {"schedulingGates": None}}
    assert RUNTIME in said(patch(machine_ground.ground.api, stored, opening))
    for key in (keys.MACHINE_PROMISED, keys.MACHINE_TRIED, keys.MACHINE_TRYING_SINCE, keys.MACHINE_PINNED):
        note = {"metadata": {"annotations": {key: "node"}}}
        for subresource in ("", "/status"):
            assert key in said(patch(machine_ground.ground.api, stored, note, subresource=subresource))
        forged = guest("g")
        forged["metadata"] |= note["metadata"]
        assert key in said(machine_ground.ground.try_pod(GUESTS, forged))
        assert patch(machine_ground.runtime, stored, {**note, **opening}).ok


@pytest.mark.accept("M2", part="a guest keeps its machine's resources")
def test_a_guest_is_not_resized(machine_ground: MachineGround, stored: str) -> None:
    def resize(path: str, spec: Object) -> Response:
        return machine_ground.ground.api.request(
            "PATCH",
            f"{path}/resize",
            {"spec": spec},
            content_type="application/strategic-merge-patch+json",
            query={"dryRun": "All"},
        )

    def of_container(cpu: str) -> Object:
        amounts = {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}
        return {"containers": [{"name": "main", "resources": amounts}]}

    assert machine_guests.SIZE_KEPT in said(resize(path_of(stored), of_container("7")))
    more = {"cpu": "7", "memory": "49Gi"}
    of_pod = {"resources": {"requests": more, "limits": more}}
    assert machine_guests.SIZE_KEPT in said(resize(path_of(stored), of_pod))
    assert resize(path_of(stored), of_container("6")).ok
    joined = guest(f"joined-{machine_ground.ground.id}")
    joined["spec"]["containers"].append({"name": "without-resources", "image": "app:1"})
    machine_ground.ground.make(f"/api/v1/namespaces/{GUESTS}/pods", joined)
    assert resize(path_of(joined["metadata"]["name"]), of_container("6")).ok
    smaller = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "50m"}}}]}
    for namespace, body in ((GUESTS, ground.pod), (ELSEWHERE, guest)):
        name = f"sized-{machine_ground.ground.id}"
        made = body(name, schedulerName="example.com/nobody")
        machine_ground.ground.make(f"/api/v1/namespaces/{namespace}/pods", made)
        assert resize(path_of(name, namespace), smaller).ok


@pytest.mark.accept("M5", part="nobody else says it is a sleeper")
def test_sleepers_are_pods_of_stateful_sets_in_the_runtimes_namespace(machine_ground: MachineGround) -> None:
    body = guest("s", labels={keys.POD_ROLE: "reservation"})
    for namespace in (GUESTS, ELSEWHERE, RUNTIME_NAMESPACE):
        for api in (machine_ground.ground.api, machine_ground.runtime):
            assert "StatefulSet controller" in said(machine_ground.ground.try_pod(namespace, body, api))
    with machine_ground.ground.as_account("kube-system", "statefulset-controller") as controller:
        assert "StatefulSet controller" in said(machine_ground.ground.try_pod(GUESTS, body, controller))


@pytest.mark.accept("M5", part="sleepers")
def test_the_real_stateful_set_controller_makes_sleepers_there(machine_ground: MachineGround) -> None:
    name, labels = (
        f"sleepers-{machine_ground.ground.id}",
        guest("s", labels={keys.POD_ROLE: "reservation"})["metadata"]["labels"],
    )
    spec: dict[str, Any] = {**guest("s")["spec"], "schedulingGates": [{"name": keys.MACHINE_GATE}]}
    template = {"metadata": {"labels": labels}, "spec": spec}
    body = {
        "metadata": {"name": name},
        "spec": {"serviceName": name, "replicas": 1, "selector": {"matchLabels": labels}, "template": template},
    }
    machine_ground.ground.make(f"/apis/apps/v1/namespaces/{RUNTIME_NAMESPACE}/statefulsets", body)
    made = waiting.eventually(lambda: machine_ground.ground.api.get(path_of(f"{name}-0", RUNTIME_NAMESPACE)))
    assert made["metadata"]["labels"].items() >= labels.items()
    assert made["spec"]["containers"][0]["resources"] == spec["containers"][0]["resources"]


@pytest.mark.accept("M2", part="the catalogue is the runtime's")
def test_the_runtime_alone_writes_the_catalogue(machine_ground: MachineGround) -> None:
    api, query = machine_ground.ground.api, {"dryRun": "All"}
    for method, path, body in (
        ("PATCH", CATALOGUE, {"data": {"general.medium.cpu": "100"}}),
        ("DELETE", CATALOGUE, None),
        ("DELETE", machines.CATALOGUES, None),
    ):
        assert RUNTIME in said(api.request(method, path, body, content_type=MERGE, query=query))
        if path == CATALOGUE:
            assert machine_ground.runtime.request(method, path, body, content_type=MERGE, query=query).ok
    mine = {"metadata": {"name": "mine"}, "data": {}}
    assert api.request("POST", machines.CATALOGUES, mine, query=query).ok
    elsewhere = f"/api/v1/namespaces/{ELSEWHERE}/configmaps"
    assert api.request("POST", elsewhere, machine_ground.catalogue, query=query).ok
    for account in ("namespace-controller", "generic-garbage-collector"):
        with machine_ground.ground.as_account("kube-system", account) as controller:
            assert controller.request("DELETE", CATALOGUE, query=query).ok


@pytest.mark.accept("M2", part="no catalogue")
def test_without_a_catalogue_guests_are_told_and_nobody_else_is_held_up(machine_ground: MachineGround) -> None:
    machine_ground.runtime.delete(CATALOGUE)
    try:
        assert RUNTIME in said(machine_ground.ground.api.request("POST", machines.CATALOGUES, machine_ground.catalogue))
        waiting.eventually(lambda: not machine_ground.injects())
        assert machine_guests.uninjected(RUNTIME_NAMESPACE) in said(machine_ground.ground.try_pod(GUESTS, guest("g")))
        assert machine_ground.ground.try_pod(GUESTS, ground.pod("p")).ok
        assert machine_ground.ground.try_pod(ELSEWHERE, guest("g")).ok
    finally:
        machine_ground.write_catalogue()


@pytest.mark.accept("M2", part="no catalogue")
def test_a_catalogue_that_says_nothing_has_no_groups_to_name(machine_ground: MachineGround) -> None:
    emptied = {key: value for key, value in machine_ground.catalogue.items() if key != "data"}
    want = machine_known.unknown_group("general", "").strip()
    assert machine_ground.runtime.request("PUT", CATALOGUE, emptied).ok
    try:
        waiting.eventually(lambda: want in said(machine_ground.ground.try_pod(GUESTS, guest("g"))))
    finally:
        assert machine_ground.runtime.request("PUT", CATALOGUE, machine_ground.catalogue).ok
        waiting.eventually(machine_ground.injects)
