"""What the runtime may do is what it does: the rights of a stack against what the API server and AWS saw.

The runtime is started with exactly the Deployment's command, variables and ServiceAccount, and lives through as much as
it takes to need each of its rights once.
"""

import json
import secrets
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from autoscaler.api import keys, names, version
from tests import builders
from tests.e2e import rays, rights, waiting
from tests.e2e.engine import stacks, worker_chapters
from tests.e2e.workers import queue_servers
from tools.engine.engine import Engine
from tools.engine.layout import Surroundings
from tools.local.asg.asg_rules import AsgRules
from tools.local.components import USUAL, Component, Options
from tools.local.plane import Plane
from tools.stack import replicas

STACK, KEY = "one", "native"
HOME, ACCOUNT = "sluice-system", "sluice"
TEAM = "team"
POOL, ONCE = "workers", "once"
GROUP, TYPE = "desk", "small"
PATIENCE_SECONDS = 90.0
ROLE = "arn:aws:iam::210987654321:role/sluice"
QUEUE = f"https://sqs.{stacks.REGION}.amazonaws.com/{stacks.ACCOUNT}/jobs"
CUSTOM = f"/apis/{version.GROUP_VERSION}"
WORKER_POOLS = f"{CUSTOM}/namespaces/{TEAM}/workerpools"
PODS = f"/api/v1/namespaces/{TEAM}/pods"
MACHINE = f"{CUSTOM}/machines/{GROUP}"
JOBS = f"/apis/batch/v1/namespaces/{TEAM}/jobs"
RAY_CLUSTERS = f"{rays.API}/namespaces/{TEAM}/rayclusters"
OK = 200
Object = dict[str, Any]

UNSEEN = {
    rights.Right("", version.GROUP, "instances", "get", ""),
    rights.Right("", version.GROUP, "instances", "delete", ""),  # 13 months after it ended
    rights.Right("", version.GROUP, "workloads", "get", ""),
    rights.Right("", version.GROUP, "machinenodepools", "get", ""),
    rights.Right(HOME, "apps", "statefulsets", "get", ""),
    rights.Right(HOME, "", "services", "get", ""),
    # What a create finds there already, which the watch has not told yet:
    # tests/autoscaler/kube/writing/test_writer.py::test_a_create_whose_answer_was_lost_is_not_done_twice
}
"""Rights that are used when two things happen at once that no test can bring about."""
UNSEEN_IN_AWS = {"ssm:GetParameters", "sts:TagSession"}
"""No calls: AWS asks for the first when a launch template is read with the image that its parameter means, and for the
second when a session of Pod Identity, which has tags, assumes the next role."""


def cluster() -> Object:
    """A new cluster of EKS, whose config names all that rights can be bound to."""
    account: Object = {"provider": "aws", "region": stacks.REGION}
    source = {"podTemplate": {"source": {"name": "worker"}, "containerName": "worker"}}
    spec = {"poolCapacity": 1, "queue": {"interval": "00:00:01", "source": {"type": "sqs", "endpoint": QUEUE}}}
    return stacks.eks(
        nodePools={
            "services": {**stacks.SERVICES, "zones": [f"{stacks.REGION}a"], "taints": []},  # machines are there, too
            POOL: {
                "nodeType": "worker",
                "instanceTypes": ["m5.large", "m5.xlarge"],
                "zones": [f"{stacks.REGION}a"],
                "maxPerGroup": 3,
                "limits": {"maxIdleSeconds": 5},
            },
            ONCE: {
                "nodeType": "worker",
                "instanceTypes": ["m5.large"],
                "zones": [f"{stacks.REGION}b"],
                "maxPerGroup": 1,
                "ephemeral": True,
            },
        },
        namespaces={TEAM: {"existing": False, "guests": True}},
        scopes={TEAM: {"namespaces": [TEAM], "pools": [{"name": POOL, "priority": 2}, {"name": ONCE, "priority": 1}]}},
        providerAccounts={
            "other": {**account, "roleArn": ROLE},
            "keyed": {**account, "credentials": {"secretRef": {"namespace": TEAM, "name": "keys"}}},
        },
        resourceFlavors={"any": {}},
        clusterQueues={
            TEAM: {
                "resourceGroups": [
                    {
                        "coveredResources": ["cpu", "memory"],
                        "flavors": [{"name": "any", "resources": [_quota("cpu", "4"), _quota("memory", "8Gi")]}],
                    }
                ]
            }
        },
        localQueues={TEAM: {"door": {"clusterQueue": TEAM}}},
        machines={
            GROUP: {
                "nodePool": [
                    {
                        "nodeSelector": {keys.INSTANCE_POOL: "services"},
                        "mode": "ready",
                        "machineType": [{"name": TYPE}],
                    }
                ],
                "machineTypes": [_machine_type(TYPE)],
            }
        },
        workerPools={TEAM: {"jobs": {**spec, "workerSpec": {"idleTimeoutMinutes": 3, **source}}}},
        autoscaler={
            "scope": "cluster",
            "replicas": 1,
            "secretNamespaces": [TEAM],
            "container": {
                "image": stacks.IMAGE,
                "env": [{"name": "SLUICE_ALLOW_LOOPBACK_QUEUES", "value": "true"}],
            },
        },
    )


def _quota(resource: str, amount: str) -> Object:
    return {"name": resource, "nominalQuota": amount}


def _machine_type(name: str, available: int = 2) -> Object:
    return {"name": name, "spec": {"cpu": "50m", "memory": "32Mi"}, "available": available}


class Story:
    """One stack on one plane, and what people and AWS do to it."""

    def __init__(self, plane: Plane, asg_rules: AsgRules, queues: queue_servers.Queues) -> None:
        self.api = plane.api
        self.aws = stacks.Aws(plane=plane)
        self.seen = asg_rules.seen
        """What was asked of AWS."""
        self._plane = plane
        self._asg_rules = asg_rules
        self._queues = queues

    def start(self) -> None:
        """Start the runtime as its Deployment says; one that runs ends well before."""
        replicas.start(self._plane, replicas.deployment(self._plane), aws_endpoint=self._asg_rules.url)
        path = f"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/{names.CLUSTER_LEASE}"
        self.until(lambda: self.api.get(path)["spec"].get("holderIdentity"))

    def until(self, check: Callable[[], object]) -> None:
        waiting.eventually(check, within_seconds=PATIENCE_SECONDS)

    def make(self, path: str, name: str, **body: Any) -> None:
        self.api.create(path, {"metadata": {"name": name}, **body})

    def worker_pods(self, pool: str) -> list[Object]:
        found: list[Object] = self.api.get(PODS, {"labelSelector": f"{keys.WORKER_POOL}={pool}"})["items"]
        return found

    def nodes(self) -> list[Object]:
        found: list[Object] = self.api.get("/api/v1/nodes", {"labelSelector": f"{keys.INSTANCE_POOL}={POOL}"})["items"]
        return found

    def told(self, name: str, count: int = 1) -> dict[str, int]:
        """Return how often an object was told what, by reason."""
        query = {"fieldSelector": f"involvedObject.name={name}"}
        events = self.api.get("/api/v1/events", query)["items"]
        return {event["reason"]: event["count"] for event in events if event["count"] >= count}

    # The chapters

    def prepare(self) -> None:
        """Make what the pools refer to."""
        for name, data in (("keys", {"accessKeyId": "AKIAKEYED", "secretAccessKey": "x"}), ("queue", {"ApiKey": "k"})):
            self.make(f"/api/v1/namespaces/{TEAM}/secrets", name, stringData=data)
        self.aws.client("sqs").create_queue(QueueName="jobs")
        here = f"{self._asg_rules.url}/{stacks.ACCOUNT}/jobs"  # the same queue, in the AWS of this machine
        self.api.merge(f"{WORKER_POOLS}/jobs", {"spec": {"queue": {"source": {"endpoint": here}}}})
        stranger = builders.resource("WorkerPool", name="stranger", workerPoolClassName="elsewhere")
        stranger["metadata"]["namespace"] = TEAM
        self.api.create(WORKER_POOLS, stranger)  # whose operator is looked for
        container = {"name": "worker", "image": "worker:1", "resources": {"requests": {"cpu": "1500m"}}}
        template = {
            "metadata": {"labels": {"app": "worker"}, "annotations": {keys.SAME_ZONE: "true"}},  # behind the gate
            "spec": {"containers": [container], "nodeSelector": {keys.INSTANCE_POOL: POOL}},
        }
        spec = {"replicas": 0, "selector": {"matchLabels": {"app": "worker"}}, "template": template}
        self.make(f"/apis/apps/v1/namespaces/{TEAM}/deployments", "worker", spec=spec)

    def grow(self) -> None:
        """Two jobs become two workers, and these an instance: not of the type that fits best, which AWS has none of."""
        self._asg_rules.orders.withhold(zone=f"{stacks.REGION}a", instance_type="m5.large")
        source = {"queue__source__endpoint": self._queues.fill("http", 2), "queue__source__secretName": "queue"}
        pool = builders.resource("WorkerPool", name="http", poolCapacity=2, queue__interval="00:00:01", **source)
        pool["metadata"]["namespace"] = TEAM
        self.api.create(WORKER_POOLS, pool)
        self.until(lambda: [pod for pod in self.worker_pods("http") if pod["status"]["phase"] == "Running"][1:])
        self._queues.fill("http", 0)

    def renew(self) -> None:
        """The launch template of an instance is no longer that of its group."""
        (group,) = [found for name, found in self.aws.groups().items() if POOL in name and found["Instances"]]
        ec2, template = self.aws.client("ec2"), group["LaunchTemplate"]["LaunchTemplateId"]
        kind = group["Instances"][0]["InstanceType"]
        data = {"ImageId": "ami-0fedcba9876543210", "InstanceType": kind}
        made = ec2.create_launch_template_version(LaunchTemplateId=template, LaunchTemplateData=data)
        self.aws.client("autoscaling").update_auto_scaling_group(
            AutoScalingGroupName=group["AutoScalingGroupName"],
            LaunchTemplate={
                "LaunchTemplateId": template,
                "Version": str(made["LaunchTemplateVersion"]["VersionNumber"]),
            },
        )
        self.until(lambda: "ec2:DescribeLaunchTemplateVersions" in self.seen)

    def interrupt(self) -> None:
        """AWS takes an instance away: its pods are asked to leave."""
        (node, *_) = self.nodes()
        instance = node["spec"]["providerID"].rpartition("/")[2]
        event = {
            "version": "0",
            "id": secrets.token_hex(8),
            "detail-type": "EC2 Spot Instance Interruption Warning",
            "source": "aws.ec2",
            "time": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "detail": {"instance-id": instance, "instance-action": "terminate"},
        }
        (url,) = [url for url in self.aws.queues() if "interruptions" in url]
        self.aws.client("sqs").send_message(QueueUrl=url, MessageBody=json.dumps(event))
        self.until(lambda: node["metadata"]["name"] not in {each["metadata"]["name"] for each in self.nodes()})

    def reserve(self) -> None:
        """A pod gets an instance to itself, which ends with it."""
        container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": "1"}}}
        spec = {"containers": [container], "nodeSelector": {keys.INSTANCE_POOL: ONCE}}
        self.make(PODS, "alone", spec=spec)
        self.until(lambda: self.api.get(f"{PODS}/alone")["status"].get("phase") == "Running")
        self.api.request("DELETE", f"{PODS}/alone", {"gracePeriodSeconds": 0}).required()

    def queue(self) -> None:
        """A Job and a RayCluster get quota; the Job grows, both go, and meanwhile their flavor says who uses it."""
        labels = {keys.QUEUE_NAME: "door"}
        container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": "250m"}}}
        template = {"spec": {"containers": [container], "restartPolicy": "Never", "nodeSelector": {"nowhere": "none"}}}
        body = {"metadata": {"name": "elastic", "labels": labels}, "spec": {"parallelism": 1, "template": template}}
        self.api.create(JOBS, body)
        self.until(lambda: not self.api.get(f"{JOBS}/elastic")["spec"]["suspend"])
        self.api.merge(f"{JOBS}/elastic", {"spec": {"parallelism": 2}})
        self.until(lambda: self.granted() == [2] and len(self.workloads()) == 1)
        self.api.create(RAY_CLUSTERS, rays.cluster("ray", rays.group(replicas=1), labels=labels))
        self.until(lambda: self.api.get(f"{RAY_CLUSTERS}/ray")["spec"].get("suspend") is False)
        flavor = f"{CUSTOM}/resourceflavors/any"
        self.api.delete(flavor)
        self.until(lambda: self.api.get(flavor).get("status"))  # it says who keeps it in use
        for path in (f"{JOBS}/elastic", f"{RAY_CLUSTERS}/ray"):
            self.api.request("DELETE", path, {"propagationPolicy": "Background"}).required()
        self.until(lambda: not self.workloads())

    def workloads(self) -> list[Object]:
        found: list[Object] = self.api.get(f"{CUSTOM}/namespaces/{TEAM}/workloads")["items"]
        return found

    def granted(self) -> list[int]:
        admissions = [each.get("status", {}).get("admission") or {} for each in self.workloads()]
        return [pods["count"] for each in admissions for pods in each.get("podSetAssignments", ())]

    def host(self) -> None:
        """A guest takes the room that a sleeper held; then the group changes, and somebody meddles with what it has."""
        self.until(lambda: self.machines(TYPE) == ("reserved", "reserved"))
        container = {"name": "main", "image": "app:1"}
        labels = {keys.MACHINE_GROUP: GROUP, keys.MACHINE_TYPE: TYPE}
        self.api.create(PODS, {"metadata": {"name": "guest", "labels": labels}, "spec": {"containers": [container]}})
        self.until(lambda: self.machines(TYPE) == ("used", "reserved"))
        self.offer(_machine_type(TYPE, 3), _machine_type("other"))
        self.until(lambda: self.machines(TYPE) == ("used", "reserved", "reserved"))
        service = f"/api/v1/namespaces/{HOME}/services/other-{GROUP}"
        self.until(lambda: self.api.request("GET", service).status == OK)
        selector = self.api.get(service)["spec"]["selector"]
        self.api.merge(service, {"spec": {"selector": {"somebody": "else"}}})
        self.until(lambda: self.api.get(service)["spec"]["selector"] == selector)
        self.offer(_machine_type(TYPE))
        self.until(lambda: self.api.request("GET", service).status == 404)
        self.api.delete(f"{PODS}/guest")
        self.until(lambda: self.machines(TYPE) == ("reserved", "reserved"))

    def offer(self, *types: Object) -> None:
        """Change which machines there are."""
        self.api.merge(MACHINE, {"spec": {"machineTypes": [*types]}})

    def machines(self, name: str) -> tuple[str, ...]:
        """Return what is made of each machine of a type that is there."""
        usage = self.api.get(MACHINE).get("status", {}).get("availableMachines", ())
        found = {each["name"]: each["usage"] for each in usage}.get(name, {})
        return (*("used",) * found.get("used", 0), *("reserved",) * found.get("reserved", 0))

    def shrink(self) -> None:
        """The pool is deleted, its workers go, and the instances that are idle go too."""
        self.api.delete(f"{WORKER_POOLS}/http")
        self.until(
            lambda: self.api.request("GET", f"{WORKER_POOLS}/http").status == 404 and not self.worker_pods("http")
        )
        self.until(lambda: not self.nodes())

    def orphan(self) -> None:
        """A worker whose pool nobody has ever seen is let go."""
        path = worker_chapters.orphan(self.api, TEAM)
        self.until(lambda: self.api.request("GET", path).status == 404)

    def stumble(self) -> None:
        """The API server fails while a worker is made; the pool says so, and says so again."""
        with worker_chapters.no_new_pods(self.api, TEAM):
            self.aws.client("sqs").send_message(QueueUrl=self._jobs(), MessageBody="a job")
            self.until(lambda: self.told("jobs", count=2))
            self.start()
            reasons = self.told("jobs")
            self.until(lambda: any(self.told("jobs")[reason] > count for reason, count in reasons.items()))
        self.until(lambda: self.worker_pods("jobs"))

    def _jobs(self) -> str:
        (url,) = [url for url in self.aws.queues() if url.endswith("/jobs")]
        return url

    def leave(self) -> None:
        """The stack's drain object is deleted, as a `destroy` does first: the runtime leaves."""
        self.api.delete(f"{WORKER_POOLS}/jobs")
        self.until(lambda: not self.worker_pods("jobs"))  # work is waited for
        path = f"/api/v1/namespaces/{HOME}/configmaps/{names.DRAIN_OBJECT}"
        self.api.delete(path)
        self.until(lambda: self.api.request("GET", path).status == 404)


@pytest.fixture
def plane(start_plane: Callable[[Options], Plane]) -> Plane:
    made = start_plane(Options(components=USUAL | {Component.KUBERAY}, boot_seconds=0.5, audit=True))
    waiting.eventually(lambda: made.api.request("GET", rays.API + "/rayclusters").status == OK)
    return made


@pytest.fixture
def story(plane: Plane, tmp_path: Path) -> Iterator[Story]:
    """The stack, up."""
    engine = Engine.open(tmp_path / "engine", Surroundings.of_plane(plane))
    engine.write_stack(STACK, stacks.document({KEY: cluster()}))
    engine.up(STACK)
    with AsgRules.start(plane.aws_endpoint) as asg_rules, queue_servers.Queues() as queues:
        yield Story(plane, asg_rules, queues)
        plane.stop_guests()


@pytest.mark.accept("S8")
def test_the_runtime_has_every_right_that_it_uses_and_no_other(plane: Plane, story: Story) -> None:
    story.prepare()
    story.start()
    story.grow()
    story.orphan()
    story.renew()
    story.interrupt()
    story.reserve()
    story.queue()
    story.host()
    story.shrink()
    story.stumble()
    story.leave()
    plane.stop_guests()

    made = rights.calls(plane.paths.audit_log, HOME, ACCOUNT)
    have = rights.granted(plane, HOME, ACCOUNT)
    assert made.forbidden == set()
    assert rights.unused(have, made) == UNSEEN

    iam = story.aws.client("iam")
    may, did = rights.granted_actions(iam, ACCOUNT), rights.used_actions(story.seen)
    assert did - may == set()
    assert may - did == UNSEEN_IN_AWS
