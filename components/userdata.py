"""Node bootstrap text: how an instance becomes a node, with which labels and taints. Pure.

It never holds a secret: a node proves who it is with its instance role. Values that could end a line, a flag or a
document early are refused, not escaped, so nothing a user wrote can become anything but a value.

AL2023 has nodeadm, which takes a NodeConfig. Debian images of the stack's own pipeline have not; they need a kubelet
and containerd as services, and what `DEBIAN_IMAGE_HAS` lists.
"""

import base64
import binascii
import ipaddress
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pydantic
import yaml

from autoscaler.api import node_resources
from autoscaler.api.resources.pools import Architecture
from autoscaler.api.resources.types import LABELS_MAX, LabelKey, LabelValue, Taint

LIMIT_BYTES: Final = 16 * 1024
"""EC2 takes no more user data than this, counted before it is encoded."""

DEBIAN_IMAGE_HAS: Final = (
    "/usr/bin/aws",
    "/usr/bin/containerd",
    "/usr/bin/curl",
    "/usr/bin/kubelet",
    "/usr/local/lib/kubelet/credential-providers/ecr-credential-provider",
)
"""Programs that `debian` counts on, besides the units containerd.service and kubelet.service. containerd looks for
network plugins in /opt/cni/bin, where the VPC CNI puts its own, and uses systemd's cgroups."""

_KUBELET_LABELS: Final = frozenset(
    {
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/instance-type",
        "beta.kubernetes.io/os",
        "failure-domain.beta.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "kubernetes.io/arch",
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "node.kubernetes.io/instance-type",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
    }
)
"""Labels of Kubernetes' own domains that a kubelet may give its node, as of Kubernetes 1.36."""
_KUBELET_DOMAINS: Final = ("kubelet.kubernetes.io", "node.kubernetes.io")
_RESERVED_DOMAINS: Final = ("kubernetes.io", "k8s.io")

_CLUSTER: Final = re.compile(r"[0-9A-Za-z][A-Za-z0-9_-]{0,99}")
_REGION: Final = re.compile(r"[a-z]{2,}(-[a-z]+)+-[0-9]+")
_ENDPOINT: Final = re.compile(r"https://[A-Za-z0-9.:\[\]-]+(/[A-Za-z0-9._~/-]*)?")
_RELEASE: Final = re.compile(r"(?P<minor>[0-9]+\.[0-9]+)\.[0-9]+-(?P<date>[0-9]{8})")
_LABEL_KEYS: Final[pydantic.TypeAdapter[str]] = pydantic.TypeAdapter(LabelKey)
_LABEL_VALUES: Final[pydantic.TypeAdapter[str]] = pydantic.TypeAdapter(LabelValue)
_DNS_ADDRESS: Final = 10
"""EKS gives cluster DNS the tenth address of the service range."""
_BOUNDARY: Final = "SLUICE"


class UserDataError(ValueError):
    """A node cannot be bootstrapped like this; the message says which value is wrong and what would be right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeBootstrap:
    """What a node must know to join its cluster."""

    cluster: str
    region: str
    endpoint: str
    """The API server's URL."""
    certificate_authority: str
    """The API server's certificates, base64, as EKS gives them. They are public."""
    service_cidr: str
    max_pods: int
    vcpus: int
    """By these two the kubelet reserves something for itself."""
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Taint] = ()

    def __post_init__(self) -> None:
        """Refuse values that are not what they should be, all of them at once."""
        problems = list(_problems(self))
        if problems:
            raise UserDataError("; ".join(problems))

    @property
    def dns_address(self) -> str:
        """Return the address of cluster DNS."""
        return str(ipaddress.ip_network(self.service_cidr)[_DNS_ADDRESS])


def al2023(bootstrap: NodeBootstrap) -> str:
    """Write the user data of an EKS image of Amazon Linux 2023: a NodeConfig for nodeadm."""
    node_config = {
        "apiVersion": "node.eks.aws/v1alpha1",
        "kind": "NodeConfig",
        "spec": {
            "cluster": {
                "name": bootstrap.cluster,
                "apiServerEndpoint": bootstrap.endpoint,
                "certificateAuthority": bootstrap.certificate_authority,
                "cidr": bootstrap.service_cidr,
            },
            "kubelet": {
                "config": _limits(bootstrap),
                "flags": [*_label_flags(bootstrap.labels), *_taint_flags(bootstrap.taints)],
            },
        },
    }
    lines = [
        "MIME-Version: 1.0",
        f'Content-Type: multipart/mixed; boundary="{_BOUNDARY}"',
        "",
        f"--{_BOUNDARY}",
        "Content-Type: application/node.eks.aws",
        "",
        "---",
        _yaml(node_config) + f"--{_BOUNDARY}--",
    ]
    return _within_limit("\n".join(lines) + "\n")


def debian(bootstrap: NodeBootstrap) -> str:
    """Write the user data of an image of the stack's own pipeline: cloud-init that configures and starts kubelet."""
    files = {
        "/etc/kubernetes/kubelet.yaml": _yaml(_kubelet_configuration(bootstrap)),
        "/etc/kubernetes/kubelet.kubeconfig": _yaml(_kubeconfig(bootstrap)),
        "/etc/kubernetes/image-credential-provider.yaml": _yaml(_IMAGE_CREDENTIALS),
        "/etc/systemd/system/kubelet.service.d/20-sluice.conf": _kubelet_unit(bootstrap),
    }
    cloud_config = {
        "write_files": [
            {"path": "/etc/kubernetes/ca.crt", "encoding": "b64", "content": bootstrap.certificate_authority},
            *({"path": path, "permissions": "0644", "content": content} for path, content in files.items()),
            {"path": "/usr/local/sbin/sluice-node-identity", "permissions": "0755", "content": _IDENTITY_SCRIPT},
        ],
        "runcmd": [
            ["/usr/local/sbin/sluice-node-identity"],
            ["systemctl", "daemon-reload"],
            ["systemctl", "enable", "--now", "containerd.service"],
            ["systemctl", "enable", "kubelet.service"],
            ["systemctl", "restart", "kubelet.service"],
        ],
    }
    return _within_limit("#cloud-config\n" + _yaml(cloud_config))


def refused_labels(labels: Iterable[str]) -> dict[str, str]:
    """Return, by key, why a kubelet may not give its node these labels; empty if it may give all of them.

    The kubelet refuses to start with a label of Kubernetes' own domains that it does not know, and the API server
    refuses such a label from a node.
    """
    return {key: reason for key in labels if (reason := _refusal(key))}


def image_parameter(release: str, architecture: str, *, gpu: bool = False) -> str:
    """Return the public SSM parameter with the AMI id of one release of EKS's AL2023 image.

    A launch template takes `resolve:ssm:<path>`, so nobody has to look the id up. A release's parameter never changes.
    """
    found = _RELEASE.fullmatch(release)
    if not found:
        raise UserDataError(f"image release {release!r} must look like 1.36.2-20261101: Kubernetes version, then date")
    processor = {Architecture.AMD64: "x86_64", Architecture.ARM64: "arm64"}[Architecture(architecture)]
    variant = "nvidia" if gpu else "standard"
    name = f"amazon-eks-node-al2023-{processor}-{variant}-{found['minor']}-v{found['date']}"
    return f"/aws/service/eks/optimized-ami/{found['minor']}/amazon-linux-2023/{processor}/{variant}/{name}/image_id"


def _problems(bootstrap: NodeBootstrap) -> Iterable[str]:
    for what, text, form in (
        ("cluster", bootstrap.cluster, _CLUSTER),
        ("region", bootstrap.region, _REGION),
        ("endpoint", bootstrap.endpoint, _ENDPOINT),
    ):
        if not form.fullmatch(text):
            yield f"{what} {text!r} must match {form.pattern}"
    yield from _certificate_problems(bootstrap.certificate_authority)
    yield from _network_problems(bootstrap.service_cidr)
    for what, number in (("max pods", bootstrap.max_pods), ("vcpus", bootstrap.vcpus)):
        if number < 1:
            yield f"{what} {number} must be at least 1"
    if len(bootstrap.labels) > LABELS_MAX:
        yield f"{len(bootstrap.labels)} labels are too many: at most {LABELS_MAX}"
    for key, value in bootstrap.labels.items():
        if not (_fits(_LABEL_KEYS, key) and _fits(_LABEL_VALUES, value)):
            yield f"label {key!r}={value!r} is not a label that Kubernetes allows"
    yield from (f"label {key}: {reason}" for key, reason in refused_labels(bootstrap.labels).items())


def _certificate_problems(text: str) -> Iterable[str]:
    try:
        decoded = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        decoded = b""
    if not decoded:
        yield "certificate authority must be base64, as EKS gives it"


def _network_problems(text: str) -> Iterable[str]:
    try:
        if ipaddress.ip_network(text).num_addresses <= _DNS_ADDRESS:
            yield f"service range {text!r} is too small"
    except ValueError as error:
        yield f"service range must be a network such as 10.100.0.0/16: {error}"


def _fits(adapter: pydantic.TypeAdapter[str], value: str) -> bool:
    try:
        adapter.validate_python(value)
    except pydantic.ValidationError:
        return False
    return True


def _refusal(key: str) -> str | None:
    domain = key.rpartition("/")[0]
    if not _is_within(domain, _RESERVED_DOMAINS) or key in _KUBELET_LABELS or _is_within(domain, _KUBELET_DOMAINS):
        return None
    return (
        f"a kubelet may not set labels of {domain}: use a domain of your own, one of {', '.join(_KUBELET_DOMAINS)},"
        f" or one of {', '.join(sorted(_KUBELET_LABELS))}"
    )


def _is_within(domain: str, parents: Iterable[str]) -> bool:
    return any(domain == parent or domain.endswith(f".{parent}") for parent in parents)


def _label_flags(labels: Mapping[str, str]) -> list[str]:
    text = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
    return [f"--node-labels={text}"] if text else []


def _taint_flags(taints: Sequence[Taint]) -> list[str]:
    text = ",".join(f"{taint.key}={taint.value}:{taint.effect}" for taint in _sorted(taints))
    return [f"--register-with-taints={text}"] if text else []


def _sorted(taints: Sequence[Taint]) -> list[Taint]:
    return sorted(taints, key=lambda taint: (taint.key, taint.effect, taint.value))


def _kubelet_configuration(bootstrap: NodeBootstrap) -> dict[str, Any]:
    taints = [taint.model_dump(mode="json") for taint in _sorted(bootstrap.taints)]
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": "/etc/kubernetes/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "systemd",
        "clusterDNS": [bootstrap.dns_address],
        "clusterDomain": "cluster.local",
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "serverTLSBootstrap": True,
        **_limits(bootstrap),
        **({"registerWithTaints": taints} if taints else {}),
    }


def _limits(bootstrap: NodeBootstrap) -> dict[str, Any]:
    """Say what is not for pods, so that nodes offer what the runtime expects: nodeadm would count other pods."""
    return {
        "maxPods": bootstrap.max_pods,
        "kubeReserved": node_resources.kube_reserved(vcpus=bootstrap.vcpus, pods=bootstrap.max_pods),
        "evictionHard": node_resources.EVICTION_HARD,
    }


def _kubeconfig(bootstrap: NodeBootstrap) -> dict[str, Any]:
    command = ["eks", "get-token", "--cluster-name", bootstrap.cluster, "--region", bootstrap.region]
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "cluster",
                "cluster": {"server": bootstrap.endpoint, "certificate-authority": "/etc/kubernetes/ca.crt"},
            }
        ],
        "users": [
            {
                "name": "kubelet",
                "user": {
                    "exec": {
                        "apiVersion": "client.authentication.k8s.io/v1beta1",
                        "command": "/usr/bin/aws",
                        "args": command,
                        "interactiveMode": "Never",
                    }
                },
            }
        ],
        "contexts": [{"name": "kubelet", "context": {"cluster": "cluster", "user": "kubelet"}}],
        "current-context": "kubelet",
    }


_IMAGE_CREDENTIALS: Final = {
    "apiVersion": "kubelet.config.k8s.io/v1",
    "kind": "CredentialProviderConfig",
    "providers": [
        {
            "name": "ecr-credential-provider",
            "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
            "defaultCacheDuration": "12h",
            "matchImages": ["*.dkr.ecr.*.amazonaws.com", "*.dkr.ecr.*.amazonaws.com.cn"],
        }
    ],
}

_IDENTITY_SCRIPT: Final = """\
#!/bin/sh
# Writes down who this instance is, as IMDSv2 says: EKS knows a node by its instance's private DNS name.
set -eu
imds=http://169.254.169.254/latest
session=$(curl -fsS --retry 9 -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' "$imds/api/token")
get() { curl -fsS --retry 9 -H "X-aws-ec2-metadata-token: $session" "$imds/meta-data/$1"; }
name=$(get local-hostname)
address=$(get local-ipv4)
provider=aws:///$(get placement/availability-zone)/$(get instance-id)
printf 'NODE_NAME=%s\\nNODE_IP=%s\\nPROVIDER_ID=%s\\n' "${name%% *}" "$address" "$provider" > /etc/kubernetes/node.env
"""


def _kubelet_unit(bootstrap: NodeBootstrap) -> str:
    flags = [
        "--config=/etc/kubernetes/kubelet.yaml",
        "--kubeconfig=/etc/kubernetes/kubelet.kubeconfig",
        "--cloud-provider=external",
        "--hostname-override=${NODE_NAME}",
        "--node-ip=${NODE_IP}",
        "--provider-id=${PROVIDER_ID}",
        "--image-credential-provider-config=/etc/kubernetes/image-credential-provider.yaml",
        "--image-credential-provider-bin-dir=/usr/local/lib/kubelet/credential-providers",
        *_label_flags(bootstrap.labels),
    ]
    return "\n".join(
        [
            "[Unit]",
            "After=containerd.service",
            "[Service]",
            "EnvironmentFile=/etc/kubernetes/node.env",
            "ExecStart=",
            f"ExecStart=/usr/bin/kubelet {' '.join(flags)}",
            "Restart=always",
            "RestartSec=5",
            "",
        ]
    )


def _yaml(document: Mapping[str, Any]) -> str:
    return yaml.safe_dump(document, sort_keys=False, width=math.inf)


def _within_limit(text: str) -> str:
    size = len(text.encode())
    if size > LIMIT_BYTES:
        raise UserDataError(
            f"user data has {size} bytes, and EC2 takes at most {LIMIT_BYTES}: give the pool fewer or shorter labels,"
            " tags and taints"
        )
    return text
