"""Pods at the API server: how they begin, what of them may change, and how they are bound to nodes."""

from typing import Any, Final

from autoscaler import clock
from autoscaler.api.manifests import Manifest
from autoscaler.kube import kinds
from autoscaler.simulation.cluster import failures, served
from autoscaler.simulation.cluster.failures import Cause
from autoscaler.simulation.cluster.kinds import conditions, nodes
from autoscaler.simulation.cluster.store import Key, Store

GRACE_SECONDS: Final = 30
DEFAULT_SCHEDULER: Final = "default-scheduler"
TERMINAL: Final = frozenset({"Succeeded", "Failed"})
GATED: Final = "Scheduling is blocked due to non-empty scheduling gates"
_TOLERATION_SECONDS: Final = 300
_CHANGEABLE: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def begin(body: Manifest, store: Store, now: float) -> Manifest:
    """Give a new pod the values that the API server fills in, and the phase Pending."""
    spec = body.get("spec") or {}
    name = body["metadata"].get("name", "")
    whole: Manifest = {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "dnsPolicy": "ClusterFirst",
        "schedulerName": DEFAULT_SCHEDULER,
        "serviceAccountName": "default",
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
        **spec,
        "containers": [_container(container) for container in spec.get("containers") or ()],
        "tolerations": _tolerations(spec.get("tolerations") or []),
        "priority": _priority(spec, name, store),
    }
    if spec.get("initContainers"):
        whole["initContainers"] = [_container(container) for container in spec["initContainers"]]
    status: Manifest = {"phase": "Pending", "qosClass": _qos(whole)}
    if whole.get("schedulingGates"):
        status["conditions"] = [_gated_condition(now)]
    return {**body, "spec": whole, "status": status}


def carry(new: Manifest, _old: Manifest) -> Manifest:
    """Fill in what an update took away and the API server always gives."""
    spec = new["spec"]
    tolerations = _tolerations(spec.get("tolerations") or [])
    kept = {name: value for name, value in spec.items() if name != "schedulingGates" or value}
    return {**new, "spec": {**kept, "tolerations": tolerations}}


def causes(body: Manifest, old: Manifest | None) -> list[Cause]:
    """Say what is wrong with a pod, or with its change."""
    spec = body["spec"]
    found = [_required("spec.containers")] if not spec.get("containers") else []
    for number, container in enumerate(spec.get("containers") or ()):
        path = f"spec.containers[{number}]"
        found += [_required(f"{path}.{name}") for name in ("name", "image") if not container.get(name)]
    if spec.get("schedulingGates") and spec.get("nodeName"):
        why = "cannot be set until all schedulingGates have been cleared"
        found.append(failures.as_cause("spec.nodeName", why, reason="FieldValueForbidden"))
    return found + (_change_causes(spec, old["spec"]) if old and old["spec"] != spec else [])


def bound(pod: Manifest, binding: Manifest, now: float) -> Manifest:
    """Return the pod as bound to a node; refuse if it cannot be."""
    name = pod["metadata"]["name"]
    if pod["metadata"].get("deletionTimestamp"):
        raise failures.conflict(kinds.PODS, name, f"pod {name} is being deleted, cannot be assigned to a host")
    if pod["spec"].get("nodeName"):
        why = f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"'
        raise failures.conflict(kinds.PODS, name, why)
    if pod["spec"].get("schedulingGates"):
        raise failures.conflict(kinds.PODS, name, f"pod {name} has non-empty .spec.schedulingGates")
    spec = {**pod["spec"], "nodeName": binding["target"]["name"]}
    condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": clock.to_rfc3339(now)}
    return conditions.put({**pod, "spec": spec}, condition)


def is_ready(pod: Manifest) -> bool:
    return conditions.status(pod, "Ready") == "True"


def grace_seconds(pod: Manifest, asked: int | None) -> int:
    """Return how long a deleted pod may take to stop; one that does not run takes no time."""
    if not pod["spec"].get("nodeName") or pod["status"].get("phase") in TERMINAL:
        return 0
    if asked is not None:
        return max(asked, 0)
    seconds: int = pod["spec"].get("terminationGracePeriodSeconds", GRACE_SECONDS)
    return seconds


def _container(container: Manifest) -> Manifest:
    """Ask for what is limited, as a container that states limits alone does."""
    whole = {"terminationMessagePath": "/dev/termination-log", "imagePullPolicy": "Always", **container}
    amounts = container.get("resources") or {}
    if amounts.get("limits"):
        requests = {**amounts["limits"], **(amounts.get("requests") or {})}
        amounts = {**amounts, "requests": requests}
    return {**whole, "resources": amounts}


def _tolerations(given: list[Manifest]) -> list[Manifest]:
    """Let a pod stay for a while on a node that fails, unless it says otherwise."""
    added = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _TOLERATION_SECONDS}
        for key in (nodes.NOT_READY, nodes.UNREACHABLE)
        if not any(
            toleration.get("key") in {key, None, ""} and toleration.get("effect") in {"NoExecute", None, ""}
            for toleration in given
        )
    ]
    return [*given, *added]


def _priority(spec: Manifest, name: str, store: Store) -> int:
    class_name = spec.get("priorityClassName")
    value = 0
    if class_name:
        entry = store.find(served.PRIORITY_CLASSES, Key("", class_name))
        if entry is None:
            raise failures.forbidden(kinds.PODS, name, f"no PriorityClass with name {class_name} was found")
        value = entry.object["value"]
    if spec.get("priority", value) != value:
        why = (
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; priority admission"
            f" controller computed {value} from the given PriorityClass name"
        )
        raise failures.forbidden(kinds.PODS, name, why)
    return value


def _qos(spec: Manifest) -> str:
    containers = [*spec["containers"], *(spec.get("initContainers") or ())]
    amounts = [container.get("resources") or {} for container in containers]
    if not any(amount.get("requests") or amount.get("limits") for amount in amounts):
        return "BestEffort"
    is_guaranteed = all(
        (amount.get("limits") or {}).keys() >= {"cpu", "memory"} and amount["limits"] == amount.get("requests")
        for amount in amounts
    )
    return "Guaranteed" if is_guaranteed else "Burstable"


def _gated_condition(now: float) -> Manifest:
    return {
        "type": "PodScheduled",
        "status": "False",
        "lastTransitionTime": clock.to_rfc3339(now),
        "reason": "SchedulingGated",
        "message": GATED,
    }


def _required(path: str) -> Cause:
    return failures.as_cause(path, "", reason="FieldValueRequired")


def _change_causes(spec: Manifest, old: Manifest) -> list[Cause]:
    gates, old_gates = _gates(spec), _gates(old)
    for number, gate in enumerate(gates):
        if gate not in old_gates:
            why = f"only deletion is allowed, but found new scheduling gate '{gate}'"
            path = f"spec.schedulingGates[{number}].name"
            return [failures.as_cause(path, why, reason="FieldValueForbidden")]
    if old_gates:
        found = _tightening_causes(spec, old)
        if found:
            return found
    if not all(_is_kept(toleration, spec["tolerations"]) for toleration in old["tolerations"]):
        why = "existing toleration can not be modified except its tolerationSeconds"
        return [failures.as_cause("spec.tolerations", why, reason="FieldValueForbidden")]
    if _fixed(spec, is_gated=bool(old_gates)) != _fixed(old, is_gated=bool(old_gates)):
        return [failures.as_cause("spec", _CHANGEABLE, reason="FieldValueForbidden")]
    return []


def _gates(spec: Manifest) -> list[str]:
    return [gate["name"] for gate in spec.get("schedulingGates") or ()]


def _tightening_causes(spec: Manifest, old: Manifest) -> list[Cause]:
    """A gated pod's selector and affinity may be narrowed, never widened."""
    selector, old_selector = spec.get("nodeSelector") or {}, old.get("nodeSelector") or {}
    if not old_selector.items() <= selector.items():
        why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        return [failures.as_cause("spec.nodeSelector", why, value=spec.get("nodeSelector"))]
    terms, old_terms = _required_terms(spec), _required_terms(old)
    if old_terms and (
        len(terms) != len(old_terms)
        or not all(_is_narrower(term, before) for term, before in zip(terms, old_terms, strict=True))
    ):
        path = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
        why = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        return [failures.as_cause(path, why, value=terms)]
    return []


def _required_terms(spec: Manifest) -> list[Manifest]:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms: list[Manifest] = required.get("nodeSelectorTerms") or []
    return terms


def _is_narrower(term: Manifest, old: Manifest) -> bool:
    return all(
        expression in (term.get(part) or ())
        for part in ("matchExpressions", "matchFields")
        for expression in old.get(part) or ()
    )


def _is_kept(toleration: Manifest, present: list[Manifest]) -> bool:
    return any(_without(toleration, "tolerationSeconds") == _without(other, "tolerationSeconds") for other in present)


def _fixed(spec: Manifest, *, is_gated: bool) -> Manifest:
    """Return the part of a spec that no update may change."""
    open_fields = {"tolerations", "schedulingGates", "activeDeadlineSeconds"}
    if is_gated:
        open_fields |= {"nodeSelector", "affinity"}
    fixed = {name: value for name, value in spec.items() if name not in open_fields}
    for name in ("containers", "initContainers"):
        if name in fixed:
            fixed[name] = [_without(container, "image") for container in fixed[name]]
    if is_gated:
        fixed["affinity"] = _loose_affinity(spec)
    return fixed


def _loose_affinity(spec: Manifest) -> Manifest:
    affinity: Manifest = spec.get("affinity") or {}
    return _without(affinity, "nodeAffinity")


def _without(value: dict[str, Any], name: str) -> Manifest:
    return {key: item for key, item in value.items() if key != name}
