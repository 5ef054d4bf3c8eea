"""StatefulSets at the API server: what it fills in, and what of them may not change.

Claims of volumes and `minReadySeconds` are not simulated, and refused.
"""

from typing import Final

from autoscaler.api.manifests import Manifest
from autoscaler.simulation.cluster import failures, selectors
from autoscaler.simulation.cluster.failures import Cause
from autoscaler.simulation.cluster.kinds import pods
from autoscaler.simulation.cluster.store import Store

PARALLEL: Final = "Parallel"
ORDERED: Final = "OrderedReady"
ROLLING: Final = "RollingUpdate"
_FIXED: Final = ("selector", "serviceName", "podManagementPolicy", "volumeClaimTemplates")
_CHANGEABLE: Final = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy',"
    " 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)


def begin(body: Manifest, _store: Store, _now: float) -> Manifest:
    """Give a new StatefulSet the values that the API server fills in."""
    return {**_filled(body), "status": {"replicas": 0, "availableReplicas": 0}}


def carry(new: Manifest, _old: Manifest) -> Manifest:
    """Fill in what an update left out."""
    return _filled(new)


def causes(body: Manifest, old: Manifest | None) -> list[Cause]:
    """Say what is wrong with a StatefulSet, or with its change."""
    spec = body["spec"]
    found = [
        failures.as_cause(f"spec.{name}", "is not simulated", value=spec[name])
        for name in ("minReadySeconds", "volumeClaimTemplates")
        if spec.get(name)
    ]
    labels = (spec["template"].get("metadata") or {}).get("labels") or {}
    if not spec.get("selector"):
        found.append(failures.as_cause("spec.selector", "", reason="FieldValueRequired"))
    elif not selectors.labels_match(spec["selector"], labels):
        why = "`selector` does not match template `labels`"
        found.append(failures.as_cause("spec.template.metadata.labels", why, value=labels))
    if old is not None and any(spec.get(name) != old["spec"].get(name) for name in _FIXED):
        found.append(failures.as_cause("spec", _CHANGEABLE, reason="FieldValueForbidden"))
    return found


def _filled(body: Manifest) -> Manifest:
    given = body.get("spec") or {}
    spec = {
        "replicas": 1,
        "serviceName": "",
        "podManagementPolicy": ORDERED,
        "revisionHistoryLimit": 10,
        **given,
        "updateStrategy": _strategy(given.get("updateStrategy") or {}),
        "persistentVolumeClaimRetentionPolicy": {
            "whenDeleted": "Retain",
            "whenScaled": "Retain",
            **(given.get("persistentVolumeClaimRetentionPolicy") or {}),
        },
        "template": _template(given.get("template") or {}),
    }
    return {**body, "spec": spec}


def _strategy(given: Manifest) -> Manifest:
    """Roll from the lowest ordinal unless told otherwise; a strategy that is named alone gets no partition."""
    if not given.get("type"):
        given = {"type": ROLLING, "rollingUpdate": given.get("rollingUpdate") or {}}
    if given["type"] == ROLLING and given.get("rollingUpdate") is not None:
        return {**given, "rollingUpdate": {"partition": 0, **given["rollingUpdate"]}}
    return given


def _template(given: Manifest) -> Manifest:
    spec = given.get("spec") or {}
    containers = {
        name: [_container(container) for container in spec[name]]
        for name in ("containers", "initContainers")
        if spec.get(name)
    }
    whole = {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": pods.GRACE_SECONDS,
        "dnsPolicy": "ClusterFirst",
        "schedulerName": pods.DEFAULT_SCHEDULER,
        "securityContext": {},
        **spec,
        **containers,
    }
    return {**given, "metadata": given.get("metadata") or {}, "spec": whole}


def _container(given: Manifest) -> Manifest:
    _, _, tag = given.get("image", "").rpartition("/")[2].partition(":")
    return {
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "Always" if tag in {"", "latest"} else "IfNotPresent",
        "resources": {},
        **given,
    }
