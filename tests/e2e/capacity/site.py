"""A cluster of its own on the folder's plane: make pools, Auto Scaling groups and pods, and see what came of them."""

import dataclasses
import functools
import secrets
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from autoscaler.api import keys, version
from tests import builders
from tests.e2e import groups, waiting
from tools.local.api import Api
from tools.local.asg.asg_rules import AsgRules
from tools.local.groups import GROUP_LABEL, IMAGE
from tools.local.plane import Plane
from tools.local.registrar import registrar_cloud
from tools.local.registrar.registrar_nodes import STARTUP_TAG

if TYPE_CHECKING:
    from mypy_boto3_autoscaling import AutoScalingClient
    from mypy_boto3_ec2 import EC2Client

Object = dict[str, Any]
WHOLE_NODE = "1500m"
"""A pod that asks for so much has a node of type m5.large to itself."""
PATIENCE_SECONDS = 60.0
_autoscaling = functools.cache(registrar_cloud.autoscaling_client)
_ec2 = functools.cache(registrar_cloud.ec2_client)


@dataclasses.dataclass(kw_only=True)
class Site:
    """What one test or module has made."""

    plane: Plane
    asg_rules: AsgRules
    remover: Api | None = None
    """Whoever may delete Instances, where policies say who; None: anybody may."""
    id: str = dataclasses.field(default_factory=lambda: secrets.token_hex(3))
    _made: list[str] = dataclasses.field(default_factory=list)
    """Paths of objects, to be deleted in the end."""
    _groups: list[str] = dataclasses.field(default_factory=list)

    @property
    def cluster(self) -> str:
        return f"cluster-{self.id}"

    @property
    def namespace(self) -> str:
        return f"work-{self.id}"

    @property
    def autoscaling(self) -> "AutoScalingClient":
        """AWS as anybody else sees it: judged by the ASG rules."""
        return _autoscaling(self.asg_rules.url, self.plane.region)

    @property
    def ec2(self) -> "EC2Client":
        return _ec2(self.asg_rules.url, self.plane.region)

    def zone(self, letter: str) -> str:
        return f"{self.plane.region}{letter}"

    # What people make

    def open(self) -> None:
        """Make the namespace and the account."""
        self.add_namespace(self.namespace)
        self.make("provideraccounts", builders.resource("ProviderAccount", name=self.id, region=self.plane.region))

    def add_namespace(self, name: str, labels: Mapping[str, str] | None = None) -> None:
        api = self.plane.api
        api.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": dict(labels or {})}})
        self._made.append(f"/api/v1/namespaces/{name}")
        waiting.eventually(lambda: api.get(f"/api/v1/namespaces/{name}/serviceaccounts/default"))

    def make(self, plural: str, manifest: Object) -> None:
        """Create an object of the whole cluster that goes with the site."""
        path = f"/apis/{version.GROUP_VERSION}/{plural}"
        self.plane.api.create(path, manifest)
        self._made.append(f"{path}/{manifest['metadata']['name']}")

    def add_pool(self, name: str, **spec: Any) -> str:
        """Make a pool, whose idle instances stay unless that is said; return its whole name."""
        pool = f"{name}-{self.id}"
        defaults = {"providerAccount": self.id, "limits__maxIdleSeconds": 3600}
        self.make("instancepools", builders.resource("InstancePool", name=pool, **{**defaults, **spec}))
        return pool

    def change_pool(self, pool: str, **spec: Any) -> None:
        self.plane.api.merge(f"/apis/{version.GROUP_VERSION}/instancepools/{pool}", {"spec": spec})

    def add_group(  # noqa: PLR0913  # a test sets what matters to it
        self,
        pool: str,
        *,
        zone: str = "a",
        kind: str = "m5.large",
        labels: Mapping[str, str] | None = None,
        taints: Mapping[str, str] | None = None,
        startup_taints: Mapping[str, str] | None = None,
        sizes: tuple[int, int, int] = (0, 0, 20),
        cluster: str | None = None,
    ) -> str:
        """Make an Auto Scaling group as the stack does, of a smallest, a desired and a largest size."""
        name = f"{pool}-{zone}-{kind.replace('.', '-')}"
        smallest, desired, largest = sizes
        template: Any = {"ImageId": IMAGE, "InstanceType": kind}
        self.ec2.create_launch_template(LaunchTemplateName=name, LaunchTemplateData=template)
        template_labels = {
            keys.INSTANCE_POOL: pool,
            keys.ZONE: self.zone(zone),
            keys.ZONE_BETA: self.zone(zone),
            keys.INSTANCE_TYPE: kind,
            GROUP_LABEL: name,
            **(labels or {}),
        }
        tags = {
            keys.TAG_ENABLED: "true",
            keys.INSTANCE_POOL: pool,
            keys.cluster_tag(cluster or self.cluster): "owned",
            **{f"{keys.TAG_TEMPLATE_LABEL}{key}": value for key, value in template_labels.items()},
            **{f"{keys.TAG_TEMPLATE_TAINT}{key}": value for key, value in (taints or {}).items()},
            **{f"{STARTUP_TAG}{key}": value for key, value in (startup_taints or {}).items()},
        }
        self._groups.append(name)
        self.autoscaling.create_auto_scaling_group(
            AutoScalingGroupName=name,
            MinSize=smallest,
            DesiredCapacity=desired,
            MaxSize=largest,
            AvailabilityZones=[self.zone(zone)],
            LaunchTemplate={"LaunchTemplateName": name, "Version": "1"},
            NewInstancesProtectedFromScaleIn=True,
            Tags=[tag(name, key, value) for key, value in tags.items()],
        )
        return name

    def add_pod(self, name: str, *, cpu: str = WHOLE_NODE, namespace: str | None = None, **spec: Any) -> None:
        where = namespace or self.namespace
        container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": cpu, "memory": "512Mi"}}}
        metadata = {"name": name, "labels": spec.pop("labels", {})}
        body = {"metadata": metadata, "spec": {"containers": [container], **spec}}
        self.plane.api.create(f"/api/v1/namespaces/{where}/pods", body)

    def delete_pods(self, *names: str) -> None:
        """Delete pods, or all of the site's namespace."""
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        for one in [f"{path}/{name}" for name in names] or [path]:
            self.plane.api.request("DELETE", one, {"gracePeriodSeconds": 0}).required()

    # What came of it

    def pods(self, namespace: str | None = None) -> dict[str, Object]:
        listed = self.plane.api.get(f"/api/v1/namespaces/{namespace or self.namespace}/pods")
        return {pod["metadata"]["name"]: pod for pod in listed["items"]}

    def bound(self, namespace: str | None = None) -> dict[str, str]:
        """Return the node of each pod that has one."""
        found = {name: pod["spec"].get("nodeName") for name, pod in self.pods(namespace).items()}
        return {name: node for name, node in found.items() if node}

    def nodes(self) -> dict[str, Object]:
        """Return the nodes of this site's groups."""
        wanted = f"{GROUP_LABEL} in ({','.join(self._groups)})"
        listed = self.plane.api.get("/api/v1/nodes", {"labelSelector": wanted})
        return {node["metadata"]["name"]: node for node in listed["items"]}

    def group_of(self, pod: str) -> str | None:
        """Return the Auto Scaling group that a pod landed in."""
        node = self.nodes().get(self.bound().get(pod, ""))
        return node["metadata"]["labels"][GROUP_LABEL] if node else None

    def marked(self) -> set[str]:
        """Return the nodes that are marked for removal."""
        return {name for name, node in self.nodes().items() if is_marked(node)}

    def described(self) -> dict[str, Any]:
        """Return the site's groups as AWS describes them."""
        pages = self.autoscaling.get_paginator("describe_auto_scaling_groups").paginate()
        found = {one["AutoScalingGroupName"]: one for page in pages for one in page["AutoScalingGroups"]}
        return {name: found[name] for name in self._groups if name in found}

    def desired(self) -> dict[str, int]:
        """Return the desired capacity of groups that should have instances."""
        sizes = {name: group["DesiredCapacity"] for name, group in self.described().items()}
        return {name: size for name, size in sizes.items() if size}

    def instances(self) -> Counter[str]:
        """Count the instances that the site's groups ever launched, by what became of them."""
        found: Counter[str] = Counter()
        for name in self.described():
            activities = self.autoscaling.describe_scaling_activities(AutoScalingGroupName=name)["Activities"]
            done = [one["Description"].split()[0] for one in activities if one["StatusCode"] != "Failed"]
            ended = done.count("Terminating")
            found += Counter({"running": done.count("Launching") - ended, "ended": ended})
        return found

    def status(self, pool: str) -> Object:
        found: Object = self.plane.api.get(f"/apis/{version.GROUP_VERSION}/instancepools/{pool}").get("status", {})
        return found

    def group_status(self, pool: str, group: str) -> Object:
        found: Object = next((one for one in self.status(pool).get("nodeGroups", ()) if one["name"] == group), {})
        return found

    def events(self, pod: str, namespace: str | None = None) -> dict[str, str]:
        """Return what a pod was told last, by reason."""
        query = {"fieldSelector": f"involvedObject.kind=Pod,involvedObject.name={pod}"}
        listed = self.plane.api.get(f"/api/v1/namespaces/{namespace or self.namespace}/events", query)
        return {event["reason"]: event["message"] for event in listed["items"]}

    # Waiting

    def wait_known(self, *wanted: str) -> None:
        """Wait until the pools tell of these groups."""

        def known() -> bool:
            pools = self.plane.api.get(f"/apis/{version.GROUP_VERSION}/instancepools")["items"]
            told = {one["name"] for pool in pools for one in pool.get("status", {}).get("nodeGroups", ())}
            assert set(wanted) <= told, f"{sorted(set(wanted) - told)} not known"
            return True

        waiting.eventually(known, within_seconds=PATIENCE_SECONDS)

    def wait_bound(self, *names: str) -> None:
        """Wait until these pods, or all, have nodes."""

        def done() -> bool:
            wanted, there = set(names) or set(self.pods()), set(self.bound())
            assert wanted <= there, f"without a node: {sorted(wanted - there)}"
            return True

        waiting.eventually(done, within_seconds=PATIENCE_SECONDS)

    def wait_told(self, pod: str, reason: str, text: str = "", namespace: str | None = None) -> str:
        """Wait until a pod was told this, with these words in it; return the message."""

        def told() -> str:
            found = self.events(pod, namespace)
            assert reason in found and text in found[reason], f"{reason} {text!r} wanted, told: {found}"  # noqa: PT018
            return found[reason]

        return waiting.eventually(told, within_seconds=PATIENCE_SECONDS)

    def wait_nodes(self, count: int) -> dict[str, Object]:
        """Wait until exactly so many nodes are there and ready."""

        def settled() -> bool:
            nodes = self.nodes()
            assert len(nodes) == count, f"{count} nodes wanted, there are {len(nodes)}"
            return all(map(groups.is_schedulable, nodes.values()))

        waiting.eventually(settled, within_seconds=3 * PATIENCE_SECONDS)
        return self.nodes()

    # The end

    def close(self) -> None:
        """Remove all that was made, pods first: the next site's runtime must not meet them."""
        self.asg_rules.orders.clear()
        self.asg_rules.orders.relieve()
        self.plane.api.request("DELETE", f"/apis/apps/v1/namespaces/{self.namespace}/daemonsets").required()
        for namespace in [path for path in self._made if path.startswith("/api/v1/namespaces/")]:
            waiting.eventually(partial(self._has_no_pods, namespace))
        here = self.described()
        for name in self._groups:
            if name in here:
                self.autoscaling.delete_auto_scaling_group(AutoScalingGroupName=name, ForceDelete=True)
            self.ec2.delete_launch_template(LaunchTemplateName=name)
        for path in self._records():
            (self.remover or self.plane.api).delete(path)
        for path in reversed(self._made):
            self.plane.api.delete(path)
            self._let_go(path)
        if self._groups:
            waiting.eventually(lambda: not self.nodes())

    def _let_go(self, path: str) -> None:
        """Take the runtime's finalizer off a pool or a scope: the runtime has ended before us."""
        if ("/instancepools/" in path or "/scopes/" in path) and self.plane.api.request("GET", path).ok:
            self.plane.api.merge(path, {"metadata": {"finalizers": None}})

    def _records(self) -> list[str]:
        """Return the paths of what the runtime has noted of this site's instances."""
        path = f"/apis/{version.GROUP_VERSION}/instances"
        named = [one["metadata"]["name"] for one in self.plane.api.get(path)["items"]]
        return [f"{path}/{name}" for name in named if f"-{self.id}-" in name]

    def _has_no_pods(self, namespace: str) -> bool:
        path = f"{namespace}/pods"
        self.plane.api.request("DELETE", path, {"gracePeriodSeconds": 0}).required()
        return not self.plane.api.get(path)["items"]


def tag(group: str, key: str, value: str) -> Any:
    return {
        "ResourceId": group,
        "ResourceType": "auto-scaling-group",
        "Key": key,
        "Value": value,
        "PropagateAtLaunch": False,
    }


def is_marked(node: Object) -> bool:
    return any(taint["key"] == keys.REMOVING for taint in node["spec"].get("taints", ()))


def never_together(app: str) -> Object:
    """Return the affinity of pods that share no node with their like."""
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": keys.HOSTNAME}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def needs(*expressions: tuple[str, str, Iterable[str]]) -> Object:
    """Return the affinity of pods that need nodes of which all this holds: key, operator, values."""
    terms = [
        {"key": key, "operator": operator, **({"values": list(values)} if values else {})}
        for key, operator, values in expressions
    ]
    required = {"nodeSelectorTerms": [{"matchExpressions": terms}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
