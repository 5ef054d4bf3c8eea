"""DaemonSets reach the nodes of every pool, those of one scope and claimed ones included."""

from autoscaler.api import keys
from tests.e2e.policies import ground
from tests.e2e.policies.ground import Ground, Object


def daemon_set(name: str) -> Object:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": ground.pod("p", cpu="10m")["spec"]}
    return {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": labels}, "template": template}}


def test_a_plain_daemon_set_reaches_exclusive_claimed_and_closed_nodes(here: Ground) -> None:
    pool = f"pool-{here.id}"
    taints = [ground.taint(keys.INSTANCE_POOL, pool), ground.taint(keys.RESERVED_FOR, keys.RESERVED_FOR_NONE)]
    taints += [ground.taint(keys.MACHINE_CLOSED, "general")]
    nodes = here.add_nodes("kept", 2, pool=pool, taints=taints)
    namespace = here.add_namespace(f"agents-{here.id}")
    here.make(f"/apis/apps/v1/namespaces/{namespace}/daemonsets", daemon_set("agent"))
    assert set(here.nodes_of(namespace, 2)) == nodes


def test_applying_the_same_manifest_again_rolls_nothing_out(here: Ground) -> None:
    namespace = here.add_namespace(f"agents-{here.id}")
    path = f"/apis/apps/v1/namespaces/{namespace}/daemonsets"
    first = here.make(path, daemon_set("agent"))
    again = here.api.request("PUT", f"{path}/agent", daemon_set("agent")).required()
    assert again["metadata"]["generation"] == first["metadata"]["generation"]


def test_the_controllers_own_pods_keep_their_tolerations(here: Ground) -> None:
    """Nobody else may write what the template of a DaemonSet is given."""
    namespace = here.add_namespace(f"agents-{here.id}")
    body = ground.pod("agent", tolerations=[ground.toleration(None, effect=None)])
    assert here.try_pod(namespace, body).status == 422
    with here.as_account("kube-system", "daemon-set-controller") as controller:
        assert here.try_pod(namespace, body, controller).ok
