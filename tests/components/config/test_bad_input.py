"""Every way a stack config can be wrong: one clear line each, with the path, the value and what is allowed."""
# ruff: noqa: E501  # a table is read row by row

from typing import Any

import pytest

from autoscaler.api import keys
from components.config import problems
from tests.components import configs

pytestmark = pytest.mark.accept("S3")


def refusal(sluice: dict[str, Any], **place: Any) -> str:
    with pytest.raises(problems.ConfigError) as caught:
        configs.load(sluice, **place)
    return str(caught.value)


def in_cluster(**fields: Any) -> dict[str, Any]:
    return configs.values(clusters={"bench": configs.cluster(**fields)})


def in_pool(**fields: Any) -> dict[str, Any]:
    return in_cluster(nodePools={"services": configs.SERVICES, "work": configs.pool(**fields)})


def joined(services: str) -> dict[str, Any]:
    join = {"endpoint": "https://a", "certificateAuthority": "Y2E=", "serviceCidr": services}
    return configs.values(clusters={"bench": configs.existing(existing={"join": join})})


def upstream(**fields: Any) -> dict[str, Any]:
    """A cluster that the upstream cluster-autoscaler scales."""
    pools = {"services": configs.SERVICES, "work": configs.pool(**fields)}
    return in_cluster(nodePools=pools, autoscaler={"nodeScaler": "cluster-autoscaler"})


ADOPTED = {"vpcId": "vpc-12345678", "subnetIds": {"eu-west-1a": "subnet-12345678"}}


def of_eks(*, groups: tuple[str, ...] = ("sg-12345678",), cni: bool | None = True, **fields: Any) -> dict[str, Any]:
    """A cluster of EKS that is there already, with a pool, whose nodes can join it."""
    join = {"endpoint": "https://a", "certificateAuthority": "Y2E=", "serviceCidr": "10.0.0.0/24"}
    default: dict[str, Any] = {
        "existing": {"eksCluster": "lab", "join": {**join, "securityGroupIds": list(groups)}},
        "network": ADOPTED,
        "nodePools": {"work": configs.pool(zones=["eu-west-1a"])},
        **({} if cni is None else {"nodeRole": {"cni": cni}}),
    }
    return configs.values(clusters={"bench": configs.existing(**{**default, **fields})})


def in_debian(types: Any, **image: Any) -> dict[str, Any]:
    """A cluster with a pool of images that a pipeline builds."""
    work = configs.pool(instanceTypes=types, image={"pipeline": "deb"})
    return configs.values(
        machineImages={"deb": {"baseImageId": "ami-12345678", **image}},
        clusters={"bench": configs.cluster(nodePools={"services": configs.SERVICES, "work": work})},
    )


def in_queue(**fields: Any) -> dict[str, Any]:
    """A cluster with one flavor and one queue that has quota of it."""
    quota = {"name": "cpu", "nominalQuota": "1", **fields.pop("quota", {})}
    groups = [{"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": [quota]}]}]
    queue = {"resourceGroups": groups, **fields.pop("queue", {})}
    return in_cluster(resourceFlavors={"f": {}}, clusterQueues={"q": queue}, **fields)


def in_flavor(of_pool: dict[str, Any] | None = None, **labels: str) -> dict[str, Any]:
    """A cluster with a pool, work, and a flavor with these node labels; `type` and `pool` are the stack's own."""
    own = {"type": keys.NODE_TYPE, "pool": keys.INSTANCE_POOL, "disk": keys.tag_label("disk")}
    given = {own.get(key, key): value for key, value in labels.items()}
    pools = {"services": configs.SERVICES, "work": configs.pool(**(of_pool or {}))}
    return in_cluster(nodePools=pools, resourceFlavors={"f": {"nodeLabels": given}})


POOL = "sluice:clusters.bench.nodePools.work"
FLAVOR = "sluice:clusters.bench.resourceFlavors.f.nodeLabels"
SLOW: dict[str, Any] = {"services": {**configs.SERVICES, "registrationTimeoutSeconds": 1201}}
READY = "sluice:clusters.bench.autoscaler.podsReadyTimeoutMinutes"
BENCH = "sluice:clusters.bench"
CASES: list[tuple[str, dict[str, Any], str]] = [
    ("unknown key", in_cluster(nodePool={}), f"{BENCH}.nodePool: unknown key; did you mean nodePools? known here: "),
    ("unknown key of a spec", in_pool(limits={"maxActive": 1}), f"{POOL}.limits.maxActive: unknown key; did you mean "),
    ("unknown top key", configs.values(cluster={}), "sluice:cluster: unknown key; did you mean clusters?"),
    ("percentage in quotes", in_cluster(vmMemoryOverheadPercent="7"), f'{BENCH}.vmMemoryOverheadPercent = "7": must be a number, without quotes'),
    ("percentage too high", in_cluster(vmMemoryOverheadPercent=51), f"{BENCH}.vmMemoryOverheadPercent = 51: must be at most 50"),
    ("number in quotes", in_pool(minPerGroup="1"), f'{POOL}.minPerGroup = "1": must be a whole number, without quotes'),
    ("nested number", in_pool(limits={"maxIdleSeconds": "9"}), f'{POOL}.limits.maxIdleSeconds = "9": must be a whole'),
    ("bare version", in_cluster(kubernetesVersion=1.36), f"{BENCH}.kubernetesVersion = 1.36: must be text; put it in"),
    ("old version", in_cluster(kubernetesVersion="1.35"), f'{BENCH}.kubernetesVersion = "1.35": must be "1.36" or newer'),
    ("list for a map", in_cluster(nodePools=[]), f"{BENCH}.nodePools = []: must be a map"),
    ("empty pool", in_pool(instanceTypes=[]), f"{POOL}.instanceTypes = []: must have at least 1 entries"),
    ("type missing", in_cluster(nodePools={"work": {"nodeType": "x"}}), f"{POOL}.instanceTypes: must be given"),
    ("no cluster", configs.values(clusters={}), "sluice:clusters = {}: must have at least 1 entries"),
    ("type unknown", in_pool(instanceTypes=["c5.19xlarge"]), f'{POOL}.instanceTypes[0] = "c5.19xlarge": is offered nowhere'),
    ("type close", in_pool(instanceTypes=["c5.19xlarge"]), "did you mean c5."),
    ("requirement misspelt", in_pool(instanceTypes={"cpus": 8}), f"{POOL}.instanceTypes.cpus: unknown key; did you mean vcpus? known here: "),
    ("range in words", in_pool(instanceTypes={"vcpus": "many"}), f'{POOL}.instanceTypes.vcpus = "many": must be a number or a range: 8, 8-16'),
    ("range of nothing", in_pool(instanceTypes={"vcpus": "-"}), f'{POOL}.instanceTypes.vcpus = "-": must be a number or a range'),
    ("range backwards", in_pool(instanceTypes={"memoryGib": "64-32"}), f'{POOL}.instanceTypes.memoryGib = "64-32": must be a range from the smaller'),
    ("range with a unit", in_pool(instanceTypes={"memoryGib": "32Gi"}), f'{POOL}.instanceTypes.memoryGib = "32Gi": must be a number or a range'),
    ("half a processor", in_pool(instanceTypes={"vcpus": 0.5}), f"{POOL}.instanceTypes.vcpus = 0.5: must be a number or a range: 8, 8-16, 8- (8 or more) or -16 (16 or fewer)"),
    ("processors by yes", in_pool(instanceTypes={"vcpus": True}), f"{POOL}.instanceTypes.vcpus = true: must be a number or a range: 8"),
    ("processors by list", in_pool(instanceTypes={"vcpus": [8, 16]}), f"{POOL}.instanceTypes.vcpus = [8, 16]: must be a number or a range: 8"),
    ("processors without end", in_pool(instanceTypes={"vcpus": "9" * 5000}), "…: must be a number or a range: 8"),
    ("other digits", in_pool(instanceTypes={"vcpus": "٣-٤"}), f'{POOL}.instanceTypes.vcpus = "٣-٤": must be a number or a range: 8'),
    ("requirements in a list", in_pool(instanceTypes=[{"vcpus": 8}]), f'{POOL}.instanceTypes[0] = {{"vcpus": 8}}: must be text'),
    ("no type that", in_pool(instanceTypes=None), f"{POOL}.instanceTypes = null: must be a list"),
    ("family by text", in_pool(instanceTypes={"families": "m", "vcpus": 8}), f'{POOL}.instanceTypes.families = "m": must be a list'),
    ("requirements in another zone", in_pool(instanceTypes={"families": ["m"], "vcpus": 8}, zones=["eu-west-1z"]), f'{POOL}.zones[0] = "eu-west-1z": must be a zone of eu-west-1'),
    ("requirements of two architectures", in_pool(instanceTypes={"architectures": ["arm64", "amd64"], "families": ["m"], "generations": 7, "vcpus": 4}, image={"imageId": "ami-12345678"}), f"{POOL}.image: serves one architecture, and the pool's types have amd64 and arm64"),
    ("requirements without prices", configs.values(alarms={"emails": ["a@b"]}, clusters={"bench": configs.cluster(nodePools={"services": configs.SERVICES, "work": configs.pool(instanceTypes={"families": ["m"], "generations": 7, "vcpus": 4}, limits={"targetMaxCostPerMonth": 10})})}), f'{POOL}.instanceTypes[0] = "m7a.xlarge": has no on-demand price'),
    ("requirements above a limit", in_pool(instanceTypes={"families": ["m"], "vcpus": 4}, minPerGroup=2, limits={"maxActiveInstances": 2}), f"{POOL}.limits.maxActiveInstances = 2: must be at least 162"),
    ("requirements above the quota", configs.values(asgQuota=9, clusters={"bench": configs.cluster(nodePools={"services": configs.SERVICES, "work": configs.pool(instanceTypes={"families": ["m"], "vcpus": 4})})}), "sluice:asgQuota = 9: the node pools make 84 Auto Scaling groups"),
    ("too many instances", in_pool(maxPerGroup=10**30), f"{POOL}.maxPerGroup = 1000000000000000000000000000000: must be at most 2147483647"),
    ("pool of other letters", in_cluster(nodePools={"services": configs.SERVICES, "wörk": configs.pool()}), f"{BENCH}.nodePools.wörk: the name must have the form"),
    ("account with a newline", configs.values(accountId="123456789012\n"), 'sluice:accountId = "123456789012\\n": must have the form'),
    (
        "start-up taint that services have by default",
        in_cluster(nodePools={"services": {**configs.SERVICES, "startupTaints": [{"key": "CriticalAddonsOnly", "effect": "NoSchedule"}]}}),
        f'{BENCH}.nodePools.services.startupTaints[0].key = "CriticalAddonsOnly": is given twice',
    ),
    ("architecture of others", in_pool(instanceTypes={"architectures": ["x86_64"]}), f"{POOL}.instanceTypes.architectures[0] = \"x86_64\": must be 'amd64' or 'arm64'"),
    ("no architecture", in_pool(instanceTypes={"architectures": []}), f"{POOL}.instanceTypes.architectures = []: must have at least 1 entries"),
    ("family twice", in_pool(instanceTypes={"families": ["m", "m"], "vcpus": 8}), f'{POOL}.instanceTypes.families[1] = "m": is given twice'),
    ("family unknown", in_pool(instanceTypes={"families": ["m7"]}), f'{POOL}.instanceTypes.families[0] = "m7": did you mean m? families of'),
    ("gpu unknown", in_pool(instanceTypes={"gpu": "H900"}), f'{POOL}.instanceTypes.gpu = "H900": known in eu-west-1: none, any, '),
    ("gpu yes", in_pool(instanceTypes={"gpu": True}), f"{POOL}.instanceTypes.gpu = true: must be text"),
    ("nothing fits", in_pool(instanceTypes={"vcpus": "5000-"}), f"{POOL}.instanceTypes: no instance type that eu-west-1 offers fits"),
    ("everything fits", in_pool(instanceTypes={}), f"{POOL}.instanceTypes: "),
    ("one type by text", in_pool(instanceTypes="m5.large"), f'{POOL}.instanceTypes = "m5.large": must be a list'),
    ("zone misspelt", in_pool(zones=["eu-west-1z"]), f'{POOL}.zones[0] = "eu-west-1z": must be a zone of eu-west-1: eu-west-1a'),
    ("zones word", in_pool(zones="every"), f"{POOL}.zones = \"every\": must be 'all', or a list"),
    ("no zones", in_pool(zones=[]), f"{POOL}.zones = []: must have at least 1 entries"),
    ("zone twice", in_pool(zones=["eu-west-1a", "eu-west-1a"]), f"{POOL}.zones[1]"),
    ("min above max", in_pool(minPerGroup=3, maxPerGroup=2), f"{POOL}.minPerGroup = 3: must not be more than maxPerGroup, which is 2"),
    ("negative min", in_pool(minPerGroup=-1), f"{POOL}.minPerGroup = -1: must be at least 0"),
    ("negative limit", in_pool(limits={"maxActiveInstances": -1}), f"{POOL}.limits.maxActiveInstances = -1: must be at least 0"),
    ("sum of min", in_pool(minPerGroup=1, limits={"maxActiveInstances": 2}), f"{POOL}.limits.maxActiveInstances = 2: must be at least 3"),
    ("capacity type", in_pool(capacityType="sport"), f"{POOL}.capacityType = \"sport\": must be 'on-demand' or 'spot'"),
    ("both scalers", in_cluster(autoscaler={"nodeScaler": ["native", "cluster-autoscaler"]}), f"{BENCH}.autoscaler.nodeScaler = "),
    ("scaler word", in_cluster(autoscaler={"nodeScaler": "both"}), "must be 'native' or 'cluster-autoscaler'"),
    ("worker scope", in_cluster(autoscaler={"scope": "galaxy"}), f"{BENCH}.autoscaler.scope = \"galaxy\": must be 'namespace' or 'cluster'"),
    ("bad cidr", in_cluster(network={"cidr": "10.32.0.0/33"}), f'{BENCH}.network.cidr = "10.32.0.0/33": must be an IPv4 block'),
    ("host bits", in_cluster(network={"cidr": "10.32.0.1/16"}), f"{BENCH}.network.cidr"),
    ("cidr too small", in_cluster(network={"cidr": "10.32.0.0/24"}), "must be from /16 to /20"),
    ("no network", in_cluster(network={}), f"{BENCH}.network: give either cidr"),
    ("both networks", in_cluster(network={"cidr": "10.0.0.0/16", "vpcId": "vpc-12345678"}), f"{BENCH}.network: give either cidr"),
    ("one subnet", in_cluster(network={"vpcId": "vpc-12345678", "subnetIds": {"eu-west-1a": "subnet-12345678"}}), "two zones at least"),
    ("open endpoint", in_cluster(endpoint={"public": True}), f"{BENCH}.endpoint.allowedCidrs: must be given"),
    ("release", in_cluster(nodeImage={"release": "latest"}), f'{BENCH}.nodeImage.release = "latest": must be a release of EKS\' image such as 1.36.2-20261101'),
    ("other release", in_cluster(nodeImage={"release": "1.37.0-20261101"}), "must be a release of kubernetesVersion, 1.36"),
    ("no image", in_cluster(nodeImage=None), f"{BENCH}.nodeImage: must be given: node pool services"),
    ("pool name", in_cluster(nodePools={"Work_er": configs.pool()}), f"{BENCH}.nodePools.Work_er: the name must have the form"),
    ("no services", in_cluster(nodePools={"work": configs.pool()}), f"{BENCH}.nodePools: must have a pool with nodeType k8s-services"),
    (
        "services from zero",
        in_cluster(nodePools={"services": {**configs.SERVICES, "minPerGroup": 0}}),
        f"{BENCH}.nodePools.services.minPerGroup = 0: must be 1 or more",
    ),
    ("exclusive services", in_cluster(nodePools={"services": {**configs.SERVICES, "ephemeral": True}}), "must be neither ephemeral nor"),
    (
        "small disk",
        configs.values(
            machineImages={"deb": {"baseImageId": "ami-12345678"}},
            clusters={"bench": configs.cluster(nodePools={
                "services": configs.SERVICES,
                "work": configs.pool(image={"pipeline": "deb"}, rootVolume={"sizeGib": 8}),
            })},
        ),
        f"{POOL}.rootVolume.sizeGib = 8: must be at least 20",
    ),
    (
        "two names",
        configs.values(clusters={"bench": configs.existing(name="a", existing={"eksCluster": "b"})}),
        f'{BENCH}.name = "a": must be left out, or equal existing.eksCluster',
    ),
    ("no admin", in_cluster(access={}), f"{BENCH}.access.admins: must name the role or user that runs `pulumi up`"),
    ("services overlap", in_cluster(network={"cidr": "10.32.0.0/16", "serviceCidr": "10.32.8.0/24"}), f"{BENCH}.network.serviceCidr"),
    ("number as tag", configs.values(tags={"a": 5}), "sluice:tags.a = 5: must be text; put it in quotes"),
    ("tag's form", configs.values(tags={"a": "b;c"}), 'sluice:tags.a = "b;c": may have letters, digits, spaces'),
    ("recipe", configs.values(machineImages={"d": {"baseImageId": "ami-12345678", "source": "URIs: {{ x }}"}}), "sluice:machineImages.d: "),
    ("long label", in_pool(labels={f"{'x' * 60}.example.com/{'y' * 60}": "z"}), f"{POOL}: makes the tag k8s.io/"),
    ("own variable", in_cluster(autoscaler={"container": {"env": [{"name": "SLUICE_SCOPE", "value": "x"}]}}), "container.env[0].name"),
    ("asking namespace", in_cluster(autoscaler={"queueAccess": {"Jobs": {}}}), f"{BENCH}.autoscaler.queueAccess"),
    ("asked host", in_cluster(autoscaler={"queueAccess": {"jobs": {"hosts": ["web"]}}}), f'{BENCH}.autoscaler.queueAccess.jobs.hosts[0] = "web": must be a full host name'),
    ("asked addresses", in_cluster(autoscaler={"queueAccess": {"jobs": {"cidrs": ["10.0.0.5"]}}}), f'{BENCH}.autoscaler.queueAccess.jobs.cidrs[0] = "10.0.0.5": must be a block of addresses'),
    ("asked link-local", in_cluster(autoscaler={"queueAccess": {"jobs": {"cidrs": ["169.254.0.0/16"]}}}), 'cidrs[0] = "169.254.0.0/16": is loopback, link-local'),
    ("asked namespace", in_cluster(autoscaler={"queueAccess": {"jobs": {"namespaces": ["M!"]}}}), f'{BENCH}.autoscaler.queueAccess.jobs.namespaces[0] = "M!"'),
    ("asked what", in_cluster(autoscaler={"queueAccess": {"jobs": {"ports": [80]}}}), f"{BENCH}.autoscaler.queueAccess.jobs.ports"),
    ("namespace", in_cluster(autoscaler={"secretNamespaces": ["nowhere"]}), f'{BENCH}.autoscaler.secretNamespaces[0] = "nowhere"'),
    (
        "tainted services",
        in_cluster(nodePools={"services": {**configs.SERVICES, "taints": [{"key": "x", "effect": "NoSchedule"}]}}),
        f"{BENCH}.nodePools.services.taints[0].effect",
    ),
    ("profile's form", configs.values(aws={"profile": "--debug"}), 'sluice:aws.profile = "--debug": must have the form'),
    ("user assumed", configs.values(aws={"assumeRole": "arn:aws:iam::123456789012:user/me"}), 'sluice:aws.assumeRole = "arn:aws:iam::123456789012:user/me": is a user, and only roles can be assumed'),
    ("session assumed", configs.values(aws={"assumeRole": "arn:aws:sts::123456789012:assumed-role/a/b"}), "is a session; give its role"),
    ("roles assumed", configs.values(aws={"assumeRoles": []}), "sluice:aws.assumeRoles: unknown key; did you mean assumeRole?"),
    ("role without a way in", configs.values(aws={"assumeRole": "arn:aws:iam::123456789012:role/other"}), f'{BENCH}.access.admins = ["arn:aws:iam::123456789012:role/deployer"]: must name arn:aws:iam::123456789012:role/other too'),
    ("labels for no operator", in_cluster(monitoring={"operatorLabels": {"release": "x"}}), f'{BENCH}.monitoring.operatorLabels = {{"release": "x"}}: goes with prometheusOperator: true'),
    ("gateways", configs.values(eipQuota=2, clusters={"bench": configs.cluster(network={"cidr": "10.32.0.0/16", "natGateways": "per-zone"})}), "sluice:eipQuota = 2: the networks make 3 NAT gateways, each with an Elastic IP; use natGateways: single"),
    ("gateways' word", in_cluster(network={"cidr": "10.32.0.0/16", "natGateways": "all"}), f"{BENCH}.network.natGateways = \"all\": must be 'single', 'per-zone' or 'every-zone'"),
    ("EKS image's disk", in_pool(rootVolume={"sizeGib": 19}), f"{POOL}.rootVolume.sizeGib = 19: must be at least 20"),
    ("ephemeral upstream", upstream(ephemeral=True), f"{POOL}.ephemeral = true: goes with nodeScaler: native"),
    ("disabled upstream", upstream(enabled=False), f"{POOL}.enabled = false: goes with nodeScaler: native"),
    ("pool's limit upstream", upstream(limits={"maxActiveInstances": 3}), f"{POOL}.limits.maxActiveInstances = 3: goes with nodeScaler: native; the upstream cluster-autoscaler knows no limit of a whole pool: use maxPerGroup"),
    ("month upstream", upstream(limits={"targetMaxSecondsPerMonth": 9}), f"{POOL}.limits.targetMaxSecondsPerMonth = 9: goes with nodeScaler: native"),
    ("session for a role", in_cluster(access={"admins": ["arn:aws:sts::123456789012:assumed-role/platform/me"]}), f'{BENCH}.access.admins[0] = "arn:aws:sts::123456789012:assumed-role/platform/me": is a session; give its role, as IAM shows it: arn:aws:iam::123456789012:role/platform, with its path if it has one'),
    ("no principal", in_cluster(access={"admins": ["platform"]}), f'{BENCH}.access.admins[0] = "platform": must be the ARN of an IAM role or user, such as arn:aws:iam::123456789012:role/platform'),
    ("image for a release", in_cluster(nodeImage={"release": "ami-0123456789abcdef0"}), f'{BENCH}.nodeImage.release = "ami-0123456789abcdef0": is an image of your own: give it as image.imageId of a node pool; must be'),
    ("EKS' network", of_eks(network={"cidr": "10.32.0.0/16"}), f'{BENCH}.network.cidr = "10.32.0.0/16": must be left out: nodes join existing.eksCluster from its own network; give vpcId and subnetIds'),
    ("EKS' groups", of_eks(groups=()), f"{BENCH}.existing.join.securityGroupIds: must name the cluster's security group"),
    ("EKS' CNI", of_eks(cni=None), f"{BENCH}.nodeRole.cni: must be given with existing.eksCluster and nodePools"),
    ("CNI of a new cluster", in_cluster(nodeRole={"cni": True}), f"{BENCH}.nodeRole.cni = true: must be left out for a new cluster"),
    ("node role of no node", of_eks(nodePools={}), f"{BENCH}.nodeRole: goes with nodePools"),
    ("node role's word", of_eks(nodeRole={"cni": "yes"}), f'{BENCH}.nodeRole.cni = "yes": must be true or false, without quotes'),
    ("node role's key", of_eks(nodeRole={"cni": True, "ssm": True}), f"{BENCH}.nodeRole.ssm: unknown key"),
    ("protection in quotes", in_cluster(protect="no"), f'{BENCH}.protect = "no": must be true or false, without quotes'),
    ("priority class", in_cluster(autoscaler={"pod": {"priorityClassName": "Not A Name"}}), f'{BENCH}.autoscaler.pod.priorityClassName = "Not A Name": must have the form'),
    (
        "taint twice",
        in_pool(taints=[{"key": "x", "effect": "NoSchedule"}, {"key": "x", "effect": "NoExecute"}]),
        f'{POOL}.taints[1].key = "x": is given twice',
    ),
    (
        "start-up taint that stays",
        in_pool(taints=[{"key": "x", "effect": "NoSchedule"}], startupTaints=[{"key": "x", "effect": "NoExecute"}]),
        f'{POOL}.startupTaints[0].key = "x": is given twice',
    ),
    (
        "soft start-up taint",
        in_pool(startupTaints=[{"key": "x", "effect": "PreferNoSchedule"}]),
        f'{POOL}.startupTaints[0].effect = "PreferNoSchedule": must be NoSchedule or NoExecute',
    ),
    (
        "start-up taint of ours",
        in_pool(startupTaints=[{"key": "sluice.dev/removing", "effect": "NoSchedule"}]),
        f'{POOL}.startupTaints[0].key = "sluice.dev/removing": is set by Sluice itself',
    ),
    (
        "authority",
        configs.values(clusters={"bench": configs.existing(existing={"join": {
            "endpoint": "https://a", "certificateAuthority": "a===", "serviceCidr": "10.0.0.0/24"}})}),
        f'{BENCH}.existing.join.certificateAuthority = "a===": must be base64',
    ),
    ("own label", in_pool(labels={"node.type": "x"}), f'{POOL}.labels.node.type = "x": is set by Sluice itself'),
    ("own taint", in_pool(taints=[{"key": "sluice.dev/x", "effect": "NoSchedule"}]), f"{POOL}.taints[0].key"),
    ("tag twice", in_pool(tags=["disk=1", "disk=2"]), f'{POOL}.tags[1] = "disk=2": gives tag disk a second time'),
    ("tag form", in_pool(tags=["a b"]), f'{POOL}.tags[0] = "a b": must have the form'),
    ("too many tags", in_pool(tags=[f"t{n}" for n in range(32)], labels={f"l{n}": "x" for n in range(16)}), f"{POOL}: makes "),
    ("account", in_pool(providerAccount="other"), f'{POOL}.providerAccount = "other": must be one of providerAccounts: aws'),
    ("image", in_pool(image={}), f"{POOL}.image: give either imageId or pipeline"),
    ("pipeline", in_pool(image={"pipeline": "deb"}), f'{POOL}.image.pipeline = "deb": must be one of machineImages'),
    ("no price", in_pool(instanceTypes=["m5.4xlarge"], limits={"targetMaxCostPerMonth": 10}), f'{POOL}.instanceTypes[0] = "m5.4xlarge": has no on-demand price in stacks/prices/eu-west-1.yaml, and targetMaxCostPerMonth is 10: run `make prices REGION=eu-west-1` and review the difference, or add it'),
    ("no spot price", in_pool(instanceTypes=["m5.large"], capacityType="spot", limits={"targetMaxCostPerMonth": 10}), f'{POOL}.instanceTypes[0] = "m5.large": has no spot price'),
    ("no price to choose by", in_cluster(nodePools={"services": configs.SERVICES, "work": configs.pool(instanceTypes=["c5.18xlarge", "m5.4xlarge"])}, autoscaler={"expanders": ["price"]}), f'{POOL}.instanceTypes[1] = "m5.4xlarge": has no on-demand price in stacks/prices/eu-west-1.yaml, and autoscaler.expanders has price'),
    ("no price of a declared pool", in_cluster(instancePools={"rack": {"providerAccount": "aws", "specifications": {"instanceTypes": ["big.metal"]}, "limits": {"targetMaxCostPerMonth": 5}}}), f'{BENCH}.instancePools.rack.specifications.instanceTypes[0] = "big.metal": has no on-demand price'),
    ("expander word", in_cluster(autoscaler={"expanders": ["cheapest"]}), f"{BENCH}.autoscaler.expanders[0] = \"cheapest\": must be 'least-waste', 'price' or 'balanced'"),
    ("expander twice", in_cluster(autoscaler={"expanders": ["price", "price"]}), f'{BENCH}.autoscaler.expanders[1] = "price": is given twice'),
    ("no expander", in_cluster(autoscaler={"expanders": []}), f"{BENCH}.autoscaler.expanders = []: must have at least 1 entries"),
    ("expanders upstream", in_cluster(autoscaler={"expanders": ["balanced"], "nodeScaler": "cluster-autoscaler"}), f'{BENCH}.autoscaler.expanders = ["balanced"]: goes with nodeScaler: native'),
    ("money", in_pool(limits={"targetMaxCostPerMonth": 10}), "sluice:alarms: must name emails or snsTopicArns: pool work"),
    ("exclusive", in_pool(instanceWide=False), f"{POOL}.instanceWide = false: needs exactly one scope"),
    ("scope's pool", in_cluster(scopes={"a": {"pools": [{"name": "x"}]}}), f'{BENCH}.scopes.a.pools[0].name = "x": must be a pool'),
    (
        "two scopes",
        in_cluster(scopes={"a": {"namespaces": ["n"]}, "b": {"namespaces": ["n"]}}),
        f'{BENCH}.scopes.b.namespaces[0] = "n": is in scope a already',
    ),
    (
        "flavor",
        in_cluster(clusterQueues={"q": {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": [
            {"name": "f", "resources": [{"name": "cpu", "nominalQuota": "1"}]}]}]}}),
        f'{BENCH}.clusterQueues.q.resourceGroups[0].flavors[0].name = "f": must be one of resourceFlavors; there are none',
    ),
    ("queue", in_cluster(localQueues={"n": {"q": {"clusterQueue": "c"}}}), f'{BENCH}.localQueues.n.q.clusterQueue = "c"'),
    (
        "unhandled worker pool",
        in_cluster(workerPools={"n": {}}),
        f"{BENCH}.workerPools.n: would be handled by nobody: autoscaler.scope is namespace",
    ),
    ("secret name", in_cluster(autoscaler={"imagePullSecrets": [{"name": "a", "value": "b"}]}), "imagePullSecrets[0].value: must be the name of a key of sluice:secrets; there are none"),
    ("no class", in_cluster(autoscaler={"defaultClass": False}), f"{BENCH}.autoscaler.className: must be given"),
    ("service account", in_cluster(autoscaler={"serviceAccount": {"create": False}}), f"{BENCH}.autoscaler.serviceAccount.name"),
    ("tag without image", in_cluster(autoscaler={"container": {"image": {"tag": "v1"}}}), "goes with repository"),
    ("account id", configs.values(accountId="12"), 'sluice:accountId = "12": must have the form ^[0-9]{12}$'),
    ("tag of aws", configs.values(tags={"aws:x": "y"}), "sluice:tags.aws:x: the name must not begin with aws:"),
    ("log period", in_cluster(logs={"retentionDays": 31}), f"{BENCH}.logs.retentionDays = 31: must be one of 1, 3, 5"),
    ("secret's own form", in_cluster(autoscaler={"imagePullSecrets": [{"name": "a", "value": "x" * 200}]}), ".value: must be the name of a key"),
    ("pasted kubeconfig", configs.values(clusters={"bench": configs.existing(existing={"kubeconfig": {"users": []}})}), "existing.kubeconfig: must be the name"),
    ("secret namespace twice", in_cluster(autoscaler={"secretNamespaces": ["sluice-system"] * 2}), 'secretNamespaces[1] = "sluice-system": is given twice'),
    ("deployer twice", in_cluster(autoscaler={"deployers": {"groups": ["a", "a"]}}), f'{BENCH}.autoscaler.deployers.groups[1] = "a": is given twice'),
    ("deployer user twice", in_cluster(autoscaler={"deployers": {"users": ["a", "a"]}}), f'{BENCH}.autoscaler.deployers.users[1] = "a": is given twice'),
    ("everybody deploys", in_cluster(autoscaler={"deployers": {"groups": ["system:authenticated"]}}), f'{BENCH}.autoscaler.deployers.groups[0] = "system:authenticated": is everybody; name who runs Pulumi'),
    ("nobody deploys", in_cluster(autoscaler={"deployers": {"users": [""]}}), f"{BENCH}.autoscaler.deployers.users[0]"),
    ("deployer's form", in_cluster(autoscaler={"deployers": {"users": ["a "]}}), f"{BENCH}.autoscaler.deployers.users[0]"),
    ("pull secret twice", in_cluster(autoscaler={"imagePullSecrets": [{"name": "a"}] * 2}), 'imagePullSecrets[1].name = "a": is given twice'),
    ("runtime in kube-system", in_cluster(autoscaler={"namespace": "kube-system"}), f"{BENCH}.autoscaler.namespace: must not be kube-system"),
    ("runtime in default", in_cluster(autoscaler={"namespace": "default"}), f'{BENCH}.autoscaler.namespace = "default": must be one of'),
    ("scope of kube-system", in_cluster(scopes={"a": {"namespaces": ["kube-system"]}}), f"{BENCH}.scopes.a.namespaces[0]: must not be kube-system"),
    ("namespace kube-system", in_cluster(namespaces={"kube-public": {}}), f"{BENCH}.namespaces.kube-public: must not be kube-public"),
    ("queues in kube-system", in_cluster(localQueues={"kube-system": {}}), f"{BENCH}.localQueues.kube-system: must not be kube-system"),
    ("workers in kube-system", in_cluster(workerPools={"kube-system": {}}), f"{BENCH}.workerPools.kube-system: must not be kube-system"),
    ("volume", in_cluster(autoscaler={"pod": {"volumes": [{"emptyDir": {}}]}}), f"{BENCH}.autoscaler.pod.volumes[0].name: must be given"),
    ("volume twice", in_cluster(autoscaler={"pod": {"volumes": [{"name": "a"}] * 2}}), 'pod.volumes[1].name = "a": is given twice'),
    ("mount's path", in_cluster(autoscaler={"container": {"volumeMounts": [{"name": "a"}]}}), "volumeMounts[0].mountPath: must be given"),
    ("mount's name", in_cluster(autoscaler={"container": {"volumeMounts": [{"mountPath": "/a"}]}}), "volumeMounts[0].name: must be given"),
    ("name of EKS", configs.values(clusters={"bench": configs.existing(existing={"eksCluster": "a.b"})}), 'existing.eksCluster = "a.b": must have the form'),
    ("long name of EKS", configs.values(clusters={"bench": configs.existing(existing={"eksCluster": "a" * 61})}), "must have at most 60 characters"),
    ("wide services", joined("10.0.0.0/8"), 'existing.join.serviceCidr = "10.0.0.0/8": must be from /12 to /24'),
    ("narrow services", in_cluster(network={"cidr": "10.32.0.0/16", "serviceCidr": "10.0.0.0/25"}), "must be from /12 to /24"),
    ("joined overlap", joined("10.32.4.0/24"), 'existing.join.serviceCidr = "10.32.4.0/24": must not overlap cidr'),
    ("throughput", in_pool(rootVolume={"throughputMib": 1000}), f"{POOL}.rootVolume.throughputMib = 1000: must be at most 750"),
    ("iops", in_pool(rootVolume={"sizeGib": 20, "iops": 10001}), f"{POOL}.rootVolume.iops = 10001: must be at most 10000"),
    ("public network", in_cluster(network={"cidr": "8.8.0.0/16"}), f'{BENCH}.network.cidr = "8.8.0.0/16": must be private'),
    ("no prefix", in_cluster(network={"cidr": "10.0.0.0"}), "must be an IPv4 block such as 10.32.0.0/16 (its length is missing)"),
    ("netmask", in_cluster(network={"cidr": "10.0.0.0/255.255.0.0"}), "must be an IPv4 block such as 10.32.0.0/16"),
    (
        "subnet twice",
        in_cluster(network={"vpcId": "vpc-12345678", "subnetIds": {"eu-west-1a": "subnet-12345678", "eu-west-1b": "subnet-12345678"}}),
        f'{BENCH}.network.subnetIds.eu-west-1b = "subnet-12345678": is the subnet of eu-west-1a already',
    ),
    ("no money", in_pool(limits={"targetMaxCostPerMonth": 0}), f"{POOL}.limits.targetMaxCostPerMonth = 0: must be at least 1"),
    ("topic", configs.values(alarms={"snsTopicArns": ["arn:aws:sqs:eu-west-1:123456789012:q"]}), "sluice:alarms.snsTopicArns[0]"),
    ("builder", configs.values(machineImages={"d": {"baseImageId": "ami-12345678", "instanceType": "big"}}), 'd.instanceType = "big": must have the form'),
    ("schedule", configs.values(machineImages={"d": {"baseImageId": "ami-12345678", "schedule": "0 0 * * *"}}), 'd.schedule = "0 0 * * *": must have the form'),
    ("services off", in_cluster(nodePools={"services": {**configs.SERVICES, "enabled": False}}), "services.enabled = false: must be true"),
    ("own name", configs.values(tags={"Name": "x"}), "sluice:tags.Name: the name must be neither Name nor begin with"),
    ("own stack tag", configs.values(tags={"sluice.dev/stack": "x"}), "sluice:tags.sluice.dev/stack: the name must be neither"),
    ("role of Kubernetes", in_cluster(autoscaler={"rbac": {"name": "cluster-admin"}}), 'rbac.name = "cluster-admin": is a role of Kubernetes'),
    ("role of the system", in_cluster(autoscaler={"rbac": {"name": "system:node"}}), 'rbac.name = "system:node": must'),
    ("account aws", in_cluster(providerAccounts={"aws": {"provider": "static"}}), 'providerAccounts.aws.provider = "static": must be aws'),
    ("everybody", in_cluster(access={"admins": ["arn:aws:iam::123456789012:role/*"]}), f"{BENCH}.access.admins[0]"),
    (
        "every key",
        configs.values(pullRequests={"repository": "a/b", "stateBucket": "abc", "secretsKeyArn": "arn:aws:kms:*:123456789012:key/*"}),
        "sluice:pullRequests.secretsKeyArn",
    ),
    ("endless number", in_pool(minPerGroup=float("nan")), f"{POOL}.minPerGroup: must be a number that ends"),
    ("half a character", in_pool(nodeType="\ud800"), f"{POOL}.nodeType: must be text that UTF-8 can hold"),
    ("feature gate", in_cluster(autoscaler={"featureGates": {"elasticJob": True}}), f"{BENCH}.autoscaler.featureGates.elasticJob: unknown key; did you mean elasticJobs? known here: elasticJobs"),
    ("feature gate's value", in_cluster(autoscaler={"featureGates": {"elasticJobs": "yes"}}), 'featureGates.elasticJobs = "yes": must be true or false, without quotes'),
    ("no time to be ready", in_cluster(autoscaler={"podsReadyTimeoutMinutes": 0}), f"{READY} = 0: must be at least 1"),
    ("little time to be ready", in_cluster(autoscaler={"podsReadyTimeoutMinutes": 29}), f"{READY} = 29: must be at least 30, twice nodePools.services.registrationTimeoutSeconds, which is 900"),
    ("slow pool", in_queue(nodePools=SLOW), f"{READY} = 30: must be at least 41, twice nodePools.services.registrationTimeoutSeconds, which is 1201"),
    ("slow declared pool", in_queue(instancePools={"rack": {"providerAccount": "aws", "registrationTimeoutSeconds": 3600}}), f"{READY} = 30: must be at least 120, twice instancePools.rack.registrationTimeoutSeconds, which is 3600"),
    ("flavor's pool", in_flavor(pool="wrok"), f'{FLAVOR}.sluice.dev/instance-pool = "wrok": must be a pool of this cluster: services, work'),
    ("flavor's node type", in_flavor(pool="work", type="k8s-services"), f'{FLAVOR}.node.type = "k8s-services": must be "worker", as nodes of pool work have it'),
    ("flavor's tag", in_flavor({"tags": ["disk=100"]}, pool="work", disk="200"), f'{FLAVOR}.tag.sluice.dev/disk = "200": must be "100"'),
    ("flavor's label", in_flavor({"labels": {"a": "b"}}, pool="work", a="c"), f'{FLAVOR}.a = "c": must be "b"'),
    ("image of another architecture", in_debian(["m7g.large"]), f'{POOL}.image.pipeline = "deb": is built for amd64, as machineImages.deb.instanceType (m7i.large) is, and the pool\'s types have arm64'),
    ("image of another architecture by requirement", in_debian({"architectures": ["arm64"], "families": ["m"], "generations": 7, "vcpus": 4}), f'{POOL}.image.pipeline = "deb": is built for amd64'),
    ("image of another architecture by its builder", in_debian(["m7i.large"], instanceType="m7g.large"), f'{POOL}.image.pipeline = "deb": is built for arm64, as machineImages.deb.instanceType (m7g.large) is, and the pool\'s types have amd64'),
    ("builder unknown", in_debian(["m7i.large"], instanceType="m7i.lagre"), 'sluice:machineImages.deb.instanceType = "m7i.lagre": is offered nowhere in eu-west-1; did you mean m7i.large'),
    ("deb822", configs.values(machineImages={"d": {"baseImageId": "ami-12345678", "source": "deb http"}}), "deb822"),
]  # fmt: skip


@pytest.mark.parametrize(("sluice", "want"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_what_is_wrong_is_said_with_its_place(sluice: dict[str, Any], want: str) -> None:
    assert want in refusal(sluice)


@pytest.mark.accept("E19", part="what Kueue has and Sluice has not is refused in a stack's file, with the reason")
@pytest.mark.parametrize(
    ("sluice", "place", "reason"),
    [
        (in_queue(quota={"lendingLimit": "1"}), "clusterQueues.q.resourceGroups[0].flavors[0].resources[0].lendingLimit", "lending limits are"),
        (in_queue(queue={"fairSharing": {"weight": "1"}}), "clusterQueues.q.fairSharing", "fair sharing is"),
        (in_queue(localQueues={"n": {"q": {"clusterQueue": "q", "fairSharing": {}}}}), "localQueues.n.q.fairSharing", "fair sharing is"),
        (in_cluster(cohorts={"lab": {"parentName": "all"}}), "cohorts", "cohorts of cohorts are"),
        (in_queue(queue={"parentName": "all"}), "clusterQueues.q.parentName", "cohorts of cohorts are"),
        (in_queue(queue={"parent": "all"}), "clusterQueues.q.parent", "cohorts of cohorts are"),
        (in_queue(queue={"admissionChecks": ["multikueue"]}), "clusterQueues.q.admissionChecks", "admission checks are"),
    ],
)  # fmt: skip
def test_what_only_kueue_has_is_refused_with_the_reason(sluice: dict[str, Any], place: str, reason: str) -> None:
    assert f"{BENCH}.{place}: {reason} refused" in refusal(sluice)


def test_such_a_key_anywhere_else_is_only_unknown() -> None:
    assert f"{BENCH}.nodePools.work.parent: unknown key; " in refusal(in_pool(parent="x"))
    assert "sluice:cohorts: unknown key; " in refusal(configs.values(cohorts={}))


@pytest.mark.parametrize(
    "sluice",
    [
        in_queue(),
        in_cluster(nodePools=SLOW),  # no queue, and nobody asked for a timeout
        in_queue(nodePools=SLOW, autoscaler={"podsReadyTimeoutMinutes": 41}),
        in_flavor(pool="work", type="worker"),
        in_flavor({"labels": {"a": "b"}}, pool="work", a="b", c="d"),
        in_flavor(type="k8s-services"),
    ],
)
def test_queues_that_can_be_are_taken(sluice: dict[str, Any]) -> None:
    assert configs.load(sluice).groups


@pytest.mark.accept("S15", part="a config that gives all that nodes need to join is taken")
@pytest.mark.parametrize("cni", [True, False])
def test_an_existing_cluster_of_eks_that_nodes_can_join_is_taken(*, cni: bool) -> None:
    assert configs.load(of_eks(cni=cni)).groups == 1


@pytest.mark.accept("S15", part="what nodes need to join is demanded, all of it at once")
def test_all_that_nodes_need_to_join_is_demanded_at_once() -> None:
    told = refusal(of_eks(groups=(), cni=None, network={"cidr": "10.32.0.0/16"}))
    assert all(one in told for one in ("network.cidr", "join.securityGroupIds", "nodeRole.cni"))
    told = refusal(of_eks(existing={"eksCluster": "lab"}, network=None))
    assert f"{BENCH}.existing.join: must be given with nodePools" in told
    assert f"{BENCH}.network: must be given with nodePools: {{vpcId, subnetIds}} of existing.eksCluster" in told


@pytest.mark.parametrize("given", [0.5, True, [8, 16]])
def test_a_number_that_is_none_is_told_once_and_without_words_of_the_program(given: object) -> None:
    told = refusal(in_pool(instanceTypes={"vcpus": given}))
    assert told.startswith("the stack config has 1 problem;")


def test_a_list_with_a_wrong_entry_is_not_called_empty() -> None:
    assert "entries" not in refusal(in_pool(instanceTypes=[{"vcpus": 8}]))


def test_the_default_config_is_right() -> None:
    assert configs.load().stack.cluster_name("bench") == "test-bench"


def test_all_problems_are_told_at_once_those_of_the_grid_included() -> None:
    clusters = {
        "one": configs.cluster(nodePools={"services": {**configs.SERVICES, "zones": ["eu-west-1z"]}}),
        "two": configs.cluster(kubernetesVersion=1.36),
    }
    told = refusal(configs.values(clusters=clusters, accountId=123456789012), region=None)
    assert told.startswith("the stack config has 3 problems; nothing was made:\n")  # no region, no grid
    told = refusal(configs.values(clusters=clusters, accountId=123456789012))
    want = (
        "sluice:accountId = 123456789012",
        "sluice:clusters.one.nodePools.services.zones[0]",
        "two.kubernetesVersion",
    )
    assert all(one in told for one in want)


@pytest.mark.accept("G5")
def test_more_groups_than_the_quota_are_refused_before_anything_is_made() -> None:
    told = refusal(configs.values(asgQuota=2))
    assert "sluice:asgQuota = 2: the node pools make 3 Auto Scaling groups" in told


@pytest.mark.parametrize("region", [None, 5, "europe"])
def test_the_region_must_be_one(region: object) -> None:
    assert "aws:region" in refusal(configs.values(), region=region)


def test_a_region_without_offerings_is_refused_with_the_command_that_reads_them() -> None:
    assert "make offerings REGION=ap-south-2" in refusal(configs.values(), region="ap-south-2")


@pytest.mark.accept("S10")
def test_secrets_outside_their_map_are_refused_and_not_shown() -> None:
    hidden = in_cluster(autoscaler={"identity": {"secure": "v1:abc"}})
    told = refusal(hidden, secret_keys=frozenset({"sluice:clusters"}))
    assert "sluice:clusters: must not hold secrets: put them into sluice:secrets" in told


SECRET = "hunter2"


@pytest.mark.accept("S10")
@pytest.mark.parametrize(
    ("sluice", "key"),
    [
        (in_cluster(kubernetesVersion=SECRET), "clusters"),
        (in_cluster(network={"cidr": SECRET}), "clusters"),
        (in_pool(zones=[SECRET]), "clusters"),
        (configs.values(accountId=SECRET), "accountId"),
    ],
)
def test_what_stands_under_a_secret_key_is_never_shown(sluice: dict[str, Any], key: str) -> None:
    told = refusal(sluice, secret_keys=frozenset({f"sluice:{key}"}))
    assert SECRET not in told
    assert f"sluice:{key}: must not hold secrets" in told
    assert "is wrong too; it is not shown" in told


@pytest.mark.accept("S10")
@pytest.mark.parametrize("region", [SECRET, "eu-west-1"])
def test_a_secret_region_is_refused_and_not_shown(region: str) -> None:
    told = refusal(configs.values(), region=region, secret_keys=frozenset({"aws:region"}))
    assert "aws:region: must not be a secret" in told
    assert region not in told


@pytest.mark.accept("S10")
@pytest.mark.parametrize("pasted", [SECRET, SECRET * 30, {"token": SECRET}, [SECRET]])
def test_a_secret_in_the_place_of_its_name_is_not_shown(pasted: object) -> None:
    told = refusal(in_cluster(autoscaler={"imagePullSecrets": [{"name": "a", "value": pasted}]}))
    assert SECRET not in told
    assert "imagePullSecrets[0].value: must be the name of a key of sluice:secrets" in told


@pytest.mark.accept("S10")
@pytest.mark.parametrize(
    ("secrets", "want"),
    [
        (SECRET, "sluice:secrets: must be a map"),
        ([SECRET], "sluice:secrets: must be a map"),
        ({"a": [SECRET]}, "sluice:secrets.a: must be text"),
        ({"a": {"b": SECRET}}, "sluice:secrets.a: must be text"),
        ({"a": 5}, "sluice:secrets.a: must be text"),
    ],
)
def test_secrets_are_a_map_of_texts_and_not_shown(secrets: object, want: str) -> None:
    told = refusal(configs.values(secrets=secrets))
    assert want in told
    assert SECRET not in told


def test_a_stack_name_that_makes_no_cluster_name_needs_another() -> None:
    assert "sluice:clusters.bench.name: must be given: a.b-bench" in refusal(configs.values(), stack="a.b")


def test_names_that_share_a_repository_are_refused() -> None:
    clusters = {"a": configs.cluster(name="My_one"), "b": configs.cluster(name="my-One")}
    told = refusal(configs.values(clusters=clusters))
    assert 'sluice:clusters.b.name = "my-One": is cluster a\'s name too' in told


def test_two_clusters_with_one_name_are_refused() -> None:
    clusters = {"a": configs.cluster(name="test-b"), "b": configs.cluster()}
    assert 'sluice:clusters.b.name = "test-b": is cluster a\'s name too' in refusal(configs.values(clusters=clusters))


def test_pools_that_share_a_name_once_it_is_shortened_are_refused() -> None:
    long = "w" * 56
    pools = {"services": configs.SERVICES, f"{long}a": configs.pool(), f"{long}b": configs.pool()}
    told = refusal(configs.values(clusters={"bench": configs.cluster(name="c" * 60, nodePools=pools)}))
    assert f"sluice:clusters.bench.nodePools.{long}b: would share the name " in told
