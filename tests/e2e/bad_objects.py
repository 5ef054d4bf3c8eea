"""Objects that the API server must refuse: what is wrong with each, and the words its error must hold."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Bad:
    """A valid object with something changed (see tests/builders.py), and what the error must name."""

    kind: str
    names: str
    changes: dict[str, Any] = field(default_factory=dict)
    name: str | None = None
    says: str = ""

    @property
    def id(self) -> str:
        what = ",".join(f"{path}={str(value)[:80]}" for path, value in self.changes.items())
        return f"{self.kind}-{what or str(self.name)[:24]}"

    @property
    def promises(self) -> tuple[str, ...]:
        """Which promises its refusal proves."""
        told = f"{self.names}: {self.says}"
        own = (promise for (kind, part), promise in _PROMISES.items() if kind == self.kind and part in told)
        return ("R5", *own)


_PROMISES = {
    ("WorkerPool", "poolCapacity"): "W5",
    ("WorkerPool", "interval"): "W6",
    ("WorkerPool", "workerSpec"): "W9",
    ("Machine", ""): "M8",
    ("Machine", "at most 51"): "M4",
    ("Machine", "hostLimit"): "M9",
    ("Machine", "dependence"): "M9",
    ("Machine", "availableRatio"): "M9",
    ("Machine", "nodeSelector"): "M15",
    ("InstancePool", ""): "P4",
}


def bad(kind: str, names: str, says: str = "", *, name: str | None = None, **changes: Any) -> Bad:
    return Bad(kind=kind, names=names, says=says, name=name, changes=changes)


_INTERVAL = "spec.queue.interval"
_ENDPOINT = "spec.queue.source.endpoint"
_SQS = {"type": "sqs", "endpoint": "https://sqs.eu-west-1.amazonaws.com/123456789012/jobs"}
_STARTING = {"key": "example.com/starting", "effect": "NoSchedule"}
_SOFT = {**_STARTING, "effect": "PreferNoSchedule"}
_GPU = {"type": "nvidia.com/gpu", "num": 1, "family": "ampere"}
_TYPE = {"name": "large", "spec": {"cpu": "1", "memory": "1Gi"}, "available": 1}
_FLAVOR = {"name": "spot", "resources": [{"name": "cpu", "nominalQuota": 1}]}
_GROUP = {"coveredResources": ["cpu"], "flavors": [_FLAVOR]}

WORKER_POOL = (
    bad("WorkerPool", "spec.poolCapacity", "greater than or equal to 0", poolCapacity=-1),
    bad("WorkerPool", "spec.poolCapacity", "Required", poolCapacity=...),
    bad("WorkerPool", "spec.poolCapacity", "must be of type integer", poolCapacity="many"),
    bad("WorkerPool", "spec.poolCapacity", "must be of type integer", poolCapacity=1.5),
    bad("WorkerPool", "spec.poolCapacity", "less than or equal", poolCapacity=2**40),
    bad("WorkerPool", "spec.queue", "Required", queue=...),
    bad("WorkerPool", _INTERVAL, "Required", queue__interval=...),
    bad("WorkerPool", _INTERVAL, "must be HH:MM:SS", queue__interval="10s"),
    bad("WorkerPool", _INTERVAL, "must be HH:MM:SS", queue__interval="0:00:10"),
    bad("WorkerPool", _INTERVAL, "must be HH:MM:SS", queue__interval="00:60:00"),
    bad("WorkerPool", _INTERVAL, "must be HH:MM:SS", queue__interval="00:00:60"),
    bad("WorkerPool", _INTERVAL, "must be HH:MM:SS", queue__interval="24:00:00"),
    bad("WorkerPool", _INTERVAL, "must be HH:MM:SS", queue__interval="00:00:10.5"),
    bad("WorkerPool", _INTERVAL, "must be HH:MM:SS", queue__interval="-0:00:10"),
    bad("WorkerPool", _INTERVAL, "must be HH:MM:SS", queue__interval="00:00:10\n"),
    bad("WorkerPool", _INTERVAL, queue__interval=10),
    bad("WorkerPool", _INTERVAL, "from 00:00:01", queue__interval="00:00:00"),
    bad("WorkerPool", "spec.queue.source", "Required", queue__source=...),
    bad("WorkerPool", _ENDPOINT, "Required", queue__source__endpoint=...),
    bad("WorkerPool", _ENDPOINT, "must be a URL", queue__source__endpoint="web-server/api"),
    bad("WorkerPool", _ENDPOINT, "must be a URL", queue__source__endpoint="ftp://web-server/api"),
    bad("WorkerPool", _ENDPOINT, "must be a URL", queue__source__endpoint="file:///etc/passwd"),
    bad("WorkerPool", _ENDPOINT, "must be a URL", queue__source__endpoint="https://"),
    bad("WorkerPool", _ENDPOINT, "password", queue__source__endpoint="https://me:secret@web-server/api"),
    bad("WorkerPool", _ENDPOINT, queue__source__endpoint="https://web-server/" + "x" * 2048),
    bad("WorkerPool", _ENDPOINT, "password", queue__source__endpoint="HTTPS://me:secret@web-server/api"),
    bad("WorkerPool", _ENDPOINT, "must be a URL", queue__source__endpoint="http://:80/length"),
    bad("WorkerPool", _ENDPOINT, "must be a URL", queue__source__endpoint="http://web-server:0/length"),
    bad("WorkerPool", "spec.queue.source.type", "Unsupported value", queue__source__type="redis"),
    bad("WorkerPool", "spec.queue.source.query", "type is prometheus", queue__source__type="prometheus"),
    bad("WorkerPool", "spec.queue.source.query", "left out otherwise", queue__source__query="up"),
    bad("WorkerPool", "spec.queue.source.header", "where type is not http", queue__source={"header": "X-Key", **_SQS}),
    bad("WorkerPool", "spec.queue.source.headerFormat", "not http", queue__source={"headerFormat": "{key}", **_SQS}),
    bad("WorkerPool", "spec.queue.source.field", "where type is not http", queue__source={"field": "length", **_SQS}),
    bad("WorkerPool", "spec.queue.source.header", "name of an HTTP header", queue__source__header="X Key"),
    bad("WorkerPool", "spec.queue.source.header", "name of an HTTP header", queue__source__header="X-Key:"),
    bad("WorkerPool", "spec.queue.source.header", "name of an HTTP header", queue__source__header="X-Key\r\nHost"),
    bad("WorkerPool", "spec.queue.source.header", "how a request is sent", queue__source__header="hOST"),
    bad("WorkerPool", "spec.queue.source.header", "how a request is sent", queue__source__header="Content-Length"),
    bad("WorkerPool", "spec.queue.source.header", "how a request is sent", queue__source__header="Transfer-Encoding"),
    bad("WorkerPool", "spec.queue.source.header", "how a request is sent", queue__source__header="connection"),
    bad("WorkerPool", "spec.queue.source.header", queue__source__header=""),
    bad("WorkerPool", "spec.queue.source.header", queue__source__header="x" * 129),
    bad("WorkerPool", "spec.queue.source.headerFormat", "with {key} in it", queue__source__headerFormat="Bearer key"),
    bad("WorkerPool", "spec.queue.source.headerFormat", "one line", queue__source__headerFormat="{key}\nHost: x"),
    bad("WorkerPool", "spec.queue.source.headerFormat", "ASCII", queue__source__headerFormat="Schl\u00fcssel {key}"),
    bad("WorkerPool", "spec.queue.source.headerFormat", queue__source__headerFormat="{key}" + "x" * 252),
    bad("WorkerPool", "spec.queue.source.field", "dots between", queue__source__field="queue..length"),
    bad("WorkerPool", "spec.queue.source.field", "dots between", queue__source__field=".length"),
    bad("WorkerPool", "spec.queue.source.field", "dots between", queue__source__field="length."),
    bad("WorkerPool", "spec.queue.source.field", queue__source__field="x" * 257),
    bad("WorkerPool", "spec.queue.source.secretName", queue__source__secretName="No_Such Name"),
    bad("WorkerPool", "spec.status", "Unsupported value", status="Sleeping"),
    bad("WorkerPool", "spec.status", "Unsupported value", status="active"),
    bad("WorkerPool", "spec.workerPoolClassName", workerPoolClassName="Upper Case"),
    bad("WorkerPool", "spec.workerSpec", "Required", workerSpec=...),
    bad("WorkerPool", "spec.workerSpec.idleTimeoutMinutes", "greater", workerSpec__idleTimeoutMinutes=0),
    bad("WorkerPool", "spec.workerSpec.idleTimeoutMinutes", "Required", workerSpec__idleTimeoutMinutes=...),
    bad(
        "WorkerPool",
        "spec.workerSpec.podTemplate.source.kind",
        "Unsupported value",
        workerSpec__podTemplate__source__kind="StatefulSet",
    ),
    bad("WorkerPool", "workerSpec.podTemplate.source.name", "Required", workerSpec__podTemplate__source__name=...),
    bad("WorkerPool", "workerSpec.podTemplate.containerName", "Required", workerSpec__podTemplate__containerName=...),
    bad("WorkerPool", "workerSpec.podTemplate.containerName", workerSpec__podTemplate__containerName="a.b"),
    bad("WorkerPool", "workerSpec.retainFailedWorkers", "boolean", workerSpec__retainFailedWorkers="yes"),
    bad("WorkerPool", "metadata.name", "at most 57", name="w" * 58),
    bad("WorkerPool", "metadata.name", "no dots", name="cloud.workers"),
)

MACHINE = (
    bad("Machine", "spec.nodePool", "Required", nodePool=...),
    bad("Machine", "spec.nodePool[0].machineType", nodePool__0__machineType=[]),
    bad("Machine", "spec.nodePool[0].machineType", nodePool__0__machineType=[{"name": "medium"}, {"name": "large"}]),
    bad("Machine", "spec.nodePool", "one of machineTypes", nodePool__0__machineType=[{"name": "huge"}]),
    bad("Machine", "spec.nodePool[0].mode", "Unsupported value", nodePool__0__mode="Ready"),
    bad("Machine", "spec.nodePool[0].mode", "Required", nodePool__0__mode=...),
    bad("Machine", "spec.nodePool[0].name", "exactly one of name and nodeSelector", nodePool__0__name=...),
    bad(
        "Machine", "spec.nodePool[0].name", "exactly one of name and nodeSelector", nodePool__0__nodeSelector={"a": "b"}
    ),
    bad("Machine", "spec.nodePool[0].taint", "boolean", nodePool__0__taint="yes"),
    bad(
        "Machine",
        "spec.nodePool",
        "named once only",
        nodePool=[{"name": "michiru", "mode": "ready", "machineType": [{"name": "medium"}]}] * 2,
    ),
    bad(
        "Machine",
        "spec.nodePool",
        "each nodeSelector may be given once only",
        nodePool=[{"nodeSelector": {"a": "b"}, "mode": "ready", "machineType": [{"name": "medium"}]}] * 2,
    ),
    bad(
        "Machine",
        "spec.nodePool[0].nodeSelector",
        "which the operator puts on them",
        nodePool__0__name=...,
        nodePool__0__nodeSelector={"machine.sluice.dev/medium": "general"},
    ),
    bad(
        "Machine",
        "spec.nodePool[0].nodeSelector",
        "which the operator puts on them",
        nodePool__0__name=...,
        nodePool__0__nodeSelector={"sluice.dev/node-pool": "ready"},
    ),
    bad(
        "Machine",
        "spec.machineTypes",
        "32 items",
        machineTypes=[{**_TYPE, "name": f"type-{number}"} for number in range(100)],
    ),
    bad("Machine", "spec.machineTypes", "Required", machineTypes=...),
    bad("Machine", "spec.machineTypes", machineTypes=[]),
    bad("Machine", "spec.machineTypes[1]", "Duplicate", machineTypes=[{**_TYPE, "name": "medium"}] * 2),
    bad("Machine", "spec.machineTypes[0].name", machineTypes__0__name="Compute_Medium"),
    bad("Machine", "spec.machineTypes[0].available", "greater", machineTypes__0__available=-1),
    bad("Machine", "spec.machineTypes[0].available", "Required", machineTypes__0__available=...),
    bad("Machine", "spec.machineTypes[0].spec.cpu", "quantity", machineTypes__0__spec__cpu="6 cores"),
    bad("Machine", "spec.machineTypes[0].spec.cpu", "above 0", machineTypes__0__spec__cpu="0"),
    bad("Machine", "spec.machineTypes[0].spec.cpu", "above 0", machineTypes__0__spec__cpu=-2),
    bad("Machine", "spec.machineTypes[0].spec.memory", "quantity", machineTypes__0__spec__memory="48GB"),
    bad("Machine", "spec.machineTypes[0].spec.cpu", "quantity", machineTypes__0__spec__cpu="1e10000000"),
    bad("Machine", "spec.machineTypes[0].spec.cpu", "quantity", machineTypes__0__spec__cpu="1e-99999999999"),
    bad("Machine", "spec.machineTypes[0].spec.cpu", "quantity", machineTypes__0__spec__cpu="1e100"),
    bad("Machine", "spec.machineTypes[0].spec.cpu", "cpu and memory", machineTypes__0__spec__memory=...),
    bad("Machine", "gpu.type", "Unsupported", machineTypes__0__spec__gpu={**_GPU, "type": "amd.com/gpu"}),
    bad("Machine", "gpu.num", "greater", machineTypes__0__spec__gpu={**_GPU, "num": 0}),
    bad("Machine", "gpu", "exactly one of family", machineTypes__0__spec__gpu={"type": "nvidia.com/gpu", "num": 1}),
    bad("Machine", "gpu", "exactly one of family", machineTypes__0__spec__gpu={**_GPU, "product": "A100"}),
    bad("Machine", "spec.machineTypes[0].spec.hostLimit", machineTypes__0__spec__hostLimit=101),
    bad("Machine", "spec.machineTypes[0].spec.hostLimit", machineTypes__0__spec__hostLimit=0),
    bad(
        "Machine",
        "availableRatio",
        machineTypes__0__spec__dependence={"parent": "medium", "availableRatio": 101},
    ),
    bad(
        "Machine",
        "spec.machineTypes",
        "dependence.parent",
        machineTypes__0__spec__dependence={"parent": "nobody", "availableRatio": 50},
    ),
    bad(
        "Machine",
        "spec.machineTypes",
        "must not depend on another type itself",
        machineTypes__0__spec__dependence={"parent": "medium", "availableRatio": 50},
    ),
    bad("Machine", "spec.machineTypes", "at most 51", name="g" * 46),
    bad("Machine", "metadata.name", "no dots", name="general.machine"),
    bad("MachineNodePool", "metadata.name", "<machineGroup>-node-pool", name="pool"),
    bad("MachineNodePool", "spec.machineGroup", "Required", machineGroup=...),
    bad("MachineNodePool", "spec.machineTypeStock[1]", "Duplicate", machineTypeStock=[{"name": "a"}, {"name": "a"}]),
)

CAPACITY = (
    bad("ProviderAccount", "spec.provider", "Unsupported value", provider="azure"),
    bad("ProviderAccount", "spec.provider", "Required", provider=...),
    bad("ProviderAccount", "spec.region", "where provider is aws", region=...),
    bad("ProviderAccount", "spec.region", region="Ireland"),
    bad("ProviderAccount", "spec.provider", "left out where provider is static", provider="static"),
    bad("ProviderAccount", "spec.roleArn", roleArn="admin"),
    bad(
        "ProviderAccount",
        "spec.roleArn",
        "cannot both be given",
        roleArn="arn:aws:iam::123456789012:role/x",
        credentials={"secretRef": {"namespace": "default", "name": "s"}},
    ),
    bad("ProviderAccount", "secretRef.namespace", "Required", credentials={"secretRef": {"name": "s"}}),
    bad("InstancePool", "spec.providerAccount", "Required", providerAccount=...),
    bad("InstancePool", "spec.enabled", "boolean", enabled="true"),
    bad("InstancePool", "spec.architectures[0]", "Unsupported value", architectures=["x86"]),
    bad("InstancePool", "spec.architectures[1]", "Duplicate", architectures=["arm64", "arm64"]),
    bad("InstancePool", "spec.tags", "once only", tags=["disk=10", "disk=20"]),
    bad("InstancePool", "spec.tags[0]", tags=["two words"]),
    bad("InstancePool", "spec.limits.maxActiveInstances", "greater", limits__maxActiveInstances=-1),
    bad("InstancePool", "spec.limits.targetMaxSecondsPerMonth", limits__targetMaxSecondsPerMonth=-1),
    bad("InstancePool", "spec.limits.maxIdleSeconds", limits__maxIdleSeconds=-1),
    bad("InstancePool", "spec.limits.targetMaxCostPerMonth", limits__targetMaxCostPerMonth=-5),
    bad("InstancePool", "spec.registrationTimeoutSeconds", registrationTimeoutSeconds=0),
    bad("InstancePool", "spec.drainSeconds", drainSeconds=-1),
    bad("InstancePool", "spec.startupTaints", "keeps no pod away", startupTaints=[_SOFT]),
    bad("InstancePool", "spec.startupTaints[1]", "Duplicate", startupTaints=[_STARTING, _STARTING]),
    bad("InstancePool", "spec.startupTaints[0].effect", "Required", startupTaints=[{"key": "a"}]),
    bad("InstancePool", "spec.specifications.capacityType", specifications__capacityType="cheap"),
    bad("InstancePool", "spec.specifications.instanceTypes[0]", specifications__instanceTypes=["big one"]),
    bad("InstancePool", "spec.specifications.nodeSelector", "each key", specifications__nodeSelector={"a b": "c"}),
    bad("InstancePool", "metadata.name", "at most 57", name="p" * 58),
    bad("Scope", "spec.pools[1]", "Duplicate", pools=[{"name": "gpu"}, {"name": "gpu"}]),
    bad("Scope", "spec.pools[0].name", "Required", pools=[{"priority": 1}]),
    bad("Scope", "spec.pools[0].priority", "integer", pools__0__priority="high"),
    bad("Scope", "spec.pools[0].limits.targetLatencySeconds", pools__0__limits={"targetLatencySeconds": -1}),
    bad("Scope", "spec.pools[0].limits.targetMaxSeconds", pools__0__limits={"targetMaxSecondsPerMonth": -1}),
    bad("Scope", "metadata.name", "no dots", name="team.research"),
    bad("Instance", "metadata.name", "<pool>-<number>", number=8),
    bad("Instance", "metadata.name", "<pool>-<number>", name="gpu-7"),
    bad("Instance", "metadata.name", "<pool>-<number>", name="cpu-007"),
    bad("Instance", "spec.number", "greater", number=0),
    bad("Instance", "spec.pool", "Required", pool=...),
)

QUEUES = (
    bad("ResourceFlavor", "spec.nodeLabels", "each key", nodeLabels={"/x": "y"}),
    bad("ResourceFlavor", "spec.nodeLabels", nodeLabels={"x": "not a label"}),
    bad("ResourceFlavor", "spec.nodeLabels", "at most 317", nodeLabels={"a" * 400 + "/b": "c"}),
    bad("ResourceFlavor", "spec.nodeTaints[0].effect", nodeTaints=[{"key": "a", "effect": "Never"}]),
    bad("ResourceFlavor", "spec.tolerations[0].operator", tolerations=[{"key": "a", "operator": "Like"}]),
    bad("ResourceFlavor", "spec.tolerations[0].operator", "must be Exists", tolerations=[{"value": "a"}]),
    bad(
        "ResourceFlavor",
        "spec.tolerations[0].value",
        "must be empty",
        tolerations=[{"key": "a", "operator": "Exists", "value": "b"}],
    ),
    bad("ResourceFlavor", "tolerations[0].effect", tolerations=[{"key": "a", "tolerationSeconds": 5}]),
    bad("ClusterQueue", "spec.queueingStrategy", "Unsupported value", queueingStrategy="LIFO"),
    bad("ClusterQueue", "spec.stopPolicy", "Unsupported value", stopPolicy="Stop"),
    bad("ClusterQueue", "spec.preemption.withinClusterQueue", preemption={"withinClusterQueue": "Always"}),
    bad("ClusterQueue", "spec.resourceGroups[0].coveredResources", resourceGroups__0__coveredResources=[]),
    bad(
        "ClusterQueue",
        "spec.resourceGroups[0].flavors",
        "exactly the coveredResources",
        resourceGroups__0__coveredResources=["cpu", "memory"],
    ),
    bad("ClusterQueue", "flavors[1]", "Duplicate", resourceGroups__0__flavors=[_FLAVOR, _FLAVOR]),
    bad("ClusterQueue", "spec.resourceGroups", "one group only", resourceGroups=[_GROUP, _GROUP]),
    bad(
        "ClusterQueue",
        "nominalQuota",
        "quantity",
        resourceGroups__0__flavors__0__resources__0__nominalQuota="lots",
    ),
    bad(
        "ClusterQueue",
        "nominalQuota",
        "0 or more",
        resourceGroups__0__flavors__0__resources__0__nominalQuota=-1,
    ),
    bad(
        "ClusterQueue",
        "spec.resourceGroups",
        "no cohort",
        resourceGroups__0__flavors__0__resources__0__borrowingLimit=1,
    ),
    bad(
        "ClusterQueue",
        "namespaceSelector.matchExpressions[0].values",
        "values must be given",
        namespaceSelector={"matchExpressions": [{"key": "a", "operator": "In"}]},
    ),
    bad("LocalQueue", "spec.clusterQueue", "Required", clusterQueue=...),
    bad("Workload", "spec.queueName", "Required", queueName=...),
    bad("Workload", "spec.podSets", podSets=[]),
    bad("Workload", "spec.podSets[1]", "Duplicate", podSets=[{"name": "a", "count": 1}, {"name": "a", "count": 1}]),
    bad("Workload", "spec.podSets[0].count", "greater", podSets__0__count=-1),
    bad("Workload", "spec.podSets[0].requests[cpu]", "quantity", podSets__0__requests={"cpu": "fast"}),
    bad("Workload", "spec.priority", priority=2**40),
)

ALL = WORKER_POOL + MACHINE + CAPACITY + QUEUES
