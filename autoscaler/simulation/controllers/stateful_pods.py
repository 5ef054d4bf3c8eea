"""A StatefulSet's pods as its controller sees them: ordinals, revisions, and what new ones look like. Pure."""

import hashlib
import re
from typing import Final

import msgspec

from autoscaler.api.manifests import Manifest
from autoscaler.simulation.cluster.kinds import pods
from autoscaler.simulation.cluster.store import Key

POD_NAME: Final = "statefulset.kubernetes.io/pod-name"
POD_INDEX: Final = "apps.kubernetes.io/pod-index"
REVISION: Final = "controller-revision-hash"
_NAME: Final = re.compile(r"(.*)-([0-9]+)")
_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"


def parent(pod: Key) -> Key | None:
    """Return the StatefulSet that a pod belongs to by its name; it may not exist."""
    found = _NAME.fullmatch(pod.name)
    return Key(pod.namespace, found[1]) if found else None


def ordinal(pod: Manifest) -> int:
    """Return the number at the end of a pod's name."""
    return int(pod["metadata"]["name"].rpartition("-")[2])


def controller_uid(pod: Manifest) -> str | None:
    """Return the uid of whoever controls a pod."""
    for owner in pod["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            uid: str = owner["uid"]
            return uid
    return None


def is_terminating(pod: Manifest) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def has_ended(pod: Manifest) -> bool:
    return pod["status"]["phase"] in pods.TERMINAL


def is_running(pod: Manifest) -> bool:
    """Tell whether a pod runs, is ready and stays."""
    return pod["status"]["phase"] == "Running" and is_available(pod)


def is_available(pod: Manifest) -> bool:
    return pods.is_ready(pod) and not is_terminating(pod)


def revision(pod: Manifest) -> str:
    """Return the name of the revision that a pod was made from."""
    name: str = (pod["metadata"].get("labels") or {}).get(REVISION, "")
    return name


def revision_name(body: Manifest) -> str:
    """Name the revision that a StatefulSet's template is now; the same template has the same name."""
    digest = hashlib.sha256(msgspec.json.encode(body["spec"]["template"], order="sorted")).digest()
    letters = "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in digest[:10])
    return f"{body['metadata']['name']}-{letters}"


def new(body: Manifest, template: Manifest, place: int, revision_name: str) -> Manifest:
    """Make the pod of an ordinal from a template."""
    owner, given = body["metadata"], template["metadata"]
    name = f"{owner['name']}-{place}"
    metadata = {
        "name": name,
        "generateName": f"{owner['name']}-",
        "labels": {**(given.get("labels") or {}), **identity(name), REVISION: revision_name},
        "annotations": given.get("annotations") or {},
        "finalizers": given.get("finalizers") or [],
        "ownerReferences": [reference(body)],
    }
    subdomain = {"subdomain": body["spec"]["serviceName"]} if body["spec"].get("serviceName") else {}
    return {"metadata": metadata, "spec": {**template["spec"], "hostname": name, **subdomain}}


def identity(name: str) -> dict[str, str]:
    """Return the labels that say which pod of its StatefulSet a pod is."""
    return {POD_NAME: name, POD_INDEX: name.rpartition("-")[2]}


def reference(body: Manifest) -> Manifest:
    """Return the owner reference to a StatefulSet."""
    kept = {name: body["metadata"][name] for name in ("name", "uid")}
    flags = {"controller": True, "blockOwnerDeletion": True}
    return {"apiVersion": body["apiVersion"], "kind": body["kind"], **kept, **flags}
