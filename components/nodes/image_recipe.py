"""What a pipeline does to a Debian image, as a document for Image Builder's agent (AWSTOE). Pure.

The image becomes a node of EKS by `userdata.debian`, so it must have what `userdata.DEBIAN_IMAGE_HAS` lists; the last
phase checks that, and a build that lacks something fails. No secret goes into a document, and nothing a user wrote can
become anything but a value: the agent's own placeholders are refused, the shell's are quoted.
"""

import hashlib
import math
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import yaml

from components import userdata
from components.config.node_pools import ROOT_GIB_MIN
from components.config.stack import Backend, MachineImage, StackConfig, Task

LIMIT_CHARACTERS: Final = 16_000
"""Image Builder takes no longer document."""
ROOT_GIB: Final = ROOT_GIB_MIN
"""The disk of an image; a pool's rootVolume cannot be smaller."""

NODE_PACKAGES: Final = ("awscli", "ca-certificates", "conntrack", "containerd", "curl", "iptables", "nftables", "socat")
"""What every node needs; Debian's own, so that its security updates reach them."""
BACKEND_PACKAGES: Final[Mapping[Backend, Sequence[str]]] = {
    Backend.UNSHARE: ("arch-test", "mmdebstrap", "uidmap"),
    Backend.INCUS: ("incus",),
}
TASK_PACKAGES: Final[Mapping[Task, Sequence[str]]] = {
    Task.AUTOPKGTEST: ("autopkgtest",),
    Task.SBUILD: ("sbuild",),
    Task.MMDEBSTRAP: ("arch-test", "debian-archive-keyring", "mmdebstrap"),
    Task.SIMPLE_SYSTEM_IMAGE_BUILD: (
        *("debvm", "dosfstools", "e2fsprogs", "fdisk", "mmdebstrap", "parted", "qemu-utils", "xz-utils"),
    ),
}
"""What debusine's workers need for each, as its package recommends."""

_EKS_BUCKET: Final = "amazon-eks"
"""Where EKS publishes its kubelet and its credential provider, for everybody."""
_CTR: Final = "ctr --namespace k8s.io images"
"""Where the kubelet looks for images."""
_SOURCES: Final = "/etc/apt/sources.list.d/sluice.sources"
_CONTAINERD: Final = """\
version = 2
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/opt/cni/bin"
conf_dir = "/etc/cni/net.d"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = true
"""
_KUBELET_UNIT: Final = """\
[Unit]
Description=Kubernetes node agent
After=containerd.service
Requires=containerd.service
[Service]
ExecStart=/usr/bin/kubelet
Restart=always
RestartSec=5
[Install]
WantedBy=multi-user.target
"""
_LINK: Final = """\
[Match]
OriginalName=*
[Link]
NamePolicy=keep kernel database onboard slot path
AlternativeNamesPolicy=database onboard slot path
MACAddressPolicy=none
"""
"""As systemd has it, but that interfaces keep their addresses: the VPC CNI knows a pod's interface by it."""
_NETWORKD: Final = """\
[Network]
ManageForeignRoutes=no
ManageForeignRoutingPolicyRules=no
"""
"""Routes and rules of pods are the VPC CNI's: networkd would remove them when it restarts."""
_NETWORK_FILES: Final = {
    "/etc/systemd/network/99-default.link": _LINK,
    "/etc/systemd/networkd.conf.d/90-sluice.conf": _NETWORKD,
}
_MASKED: Final = ("policy-routes@.service", "refresh-policy-routes@.service", "refresh-policy-routes@.timer")
"""Units of amazon-ec2-net-utils, which would set up the interfaces that the VPC CNI attaches for pods."""
_FILES: Final = {
    **_NETWORK_FILES,
    "/etc/containerd/config.toml": _CONTAINERD,
    "/etc/modules-load.d/sluice.conf": "br_netfilter\noverlay\n",
    "/etc/sysctl.d/90-sluice.conf": "net.bridge.bridge-nf-call-iptables = 1\nnet.ipv4.ip_forward = 1\n",
    "/etc/systemd/system/kubelet.service": _KUBELET_UNIT,
}


class RecipeError(ValueError):
    """An image cannot be built like this; the message says which value is wrong and what would be right."""


def document(config: MachineImage, *, kubernetes_version: str) -> str:
    """Write the document, as YAML."""
    steps = [
        *([_file("AddSource", {_SOURCES: _ended(config.source)})] if config.source else []),
        _script("InstallPackages", _install(packages(config))),
        _file("ConfigureNode", _FILES),
        _script("InstallKubelet", _kubelet(kubernetes_version)),
        _script("Enable", _enable(config.enable_backends)),
        *([_script("PreloadImages", _preload(config.preloaded_images))] if config.preloaded_images else []),
        _script("CleanUp", ["apt-get clean", "rm -rf /var/lib/apt/lists/* /tmp/sluice"]),
    ]
    written = {
        "name": "sluice-debian-node",
        "schemaVersion": 1.0,
        "phases": [
            {"name": "build", "steps": steps},
            {"name": "validate", "steps": [_script("CheckNode", _checks(config.preloaded_images))]},
        ],
    }
    return _within_limit(yaml.safe_dump(written, sort_keys=False, width=math.inf))


def user_data(region: str) -> str:
    """Write what a build instance does first: install the agent by which Image Builder commands it.

    This takes the place of what Image Builder itself would run, which is documented for no Debian.
    """
    suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    bucket = f"https://s3.{region}.{suffix}/amazon-ssm-{region}"
    lines = [
        "#!/bin/sh",
        "set -eu",
        "test ! -x /usr/bin/amazon-ssm-agent || exit 0",
        *_install(("ca-certificates", "curl")),
        "agent=$(mktemp --suffix=.deb)",
        f'url="{bucket}/latest/debian_$(dpkg --print-architecture)/amazon-ssm-agent.deb"',
        'curl --fail --silent --show-error --retry 5 --output "$agent" "$url"',
        'dpkg --install "$agent"',
        "systemctl enable --now amazon-ssm-agent.service",
    ]
    return "\n".join(lines) + "\n"


def packages(config: MachineImage) -> tuple[str, ...]:
    """Name the packages that an image gets, each once, in order."""
    wanted = {
        *NODE_PACKAGES,
        *(package for backend in config.enable_backends for package in BACKEND_PACKAGES[backend]),
        *(package for task in config.enable_tasks for package in TASK_PACKAGES[task]),
    }
    return tuple(sorted(wanted))


def kubernetes_version(config: StackConfig, pipeline: str) -> str:
    """Choose the kubelet's Kubernetes: the oldest of the clusters that use the image; it must not be newer."""
    users = [cluster for cluster in config.clusters.values() if _uses(cluster.node_pools.values(), pipeline)]
    versions = [cluster.kubernetes_version for cluster in users or config.clusters.values()]
    return min(versions, key=lambda version: [int(part) for part in version.split(".")])


def digest(*parts: str) -> str:
    """Tell one recipe from another: Image Builder keeps both, and neither can be changed."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:8]


def _uses(pools: Iterable[Any], pipeline: str) -> bool:
    return any(pool.image is not None and pool.image.pipeline == pipeline for pool in pools)


def _install(wanted: Sequence[str]) -> list[str]:
    return [
        "export DEBIAN_FRONTEND=noninteractive",
        "apt-get update",
        f"apt-get install --yes --no-install-recommends {' '.join(wanted)}",
    ]


def _kubelet(version: str) -> list[str]:
    """Fetch the newest patch of a Kubernetes, with its checksums; the image keeps it until it is built anew."""
    aws = "aws --no-sign-request --region us-west-2"
    directories = "/usr/local/lib/kubelet/credential-providers /opt/cni/bin /etc/cni/net.d /etc/kubernetes"
    listed = f"{aws} s3api list-objects-v2 --bucket {_EKS_BUCKET} --prefix {shlex.quote(f'{version}.')}"
    newest = "cut -d/ -f1,2 | sort --version-sort --unique | tail --lines=1"
    return [
        f"build=$({listed} --query 'Contents[].[Key]' --output text | {newest})",
        f"from=s3://{_EKS_BUCKET}/$build/bin/linux/$(dpkg --print-architecture)",
        f"mkdir --parents /tmp/sluice {directories}",
        "cd /tmp/sluice",
        "for program in kubelet ecr-credential-provider; do",
        f'  {aws} s3 cp --no-progress "$from/$program" .',
        f'  {aws} s3 cp --no-progress "$from/$program.sha256" .',
        '  sha256sum --check "$program.sha256"',
        "done",
        "install --mode=0755 kubelet /usr/bin/kubelet",
        "install --mode=0755 ecr-credential-provider /usr/local/lib/kubelet/credential-providers/",
    ]


def _enable(backends: Sequence[Backend]) -> list[str]:
    """Start what an instance needs at its start; the kubelet waits for its user data."""
    return [
        "systemctl daemon-reload",
        "systemctl enable containerd.service",
        "systemctl disable kubelet.service",
        "systemctl restart containerd.service",
        f"systemctl mask {' '.join(_MASKED)}",
        *(["incus admin init --auto"] if Backend.INCUS in backends else []),
    ]


def _preload(images: Sequence[str]) -> list[str]:
    """Pull images and pin them, or the kubelet would throw them away when the disk fills."""
    pull = f"{_CTR} pull --label io.cri-containerd.pinned=pinned"
    return [f"{pull}{_login(image)} {shlex.quote(image)}" for image in images]


def _login(image: str) -> str:
    """Let the build instance's own role log in to ECR; other registries are asked as anybody."""
    host = image.partition("/")[0].split(".")
    if host[1:3] != ["dkr", "ecr"]:
        return ""
    return f' --user "AWS:$(aws ecr get-login-password --region {shlex.quote(host[3])})"'


def _checks(images: Sequence[str]) -> list[str]:
    return [
        *(f"test -x {program}" for program in userdata.DEBIAN_IMAGE_HAS),
        "systemctl cat containerd.service kubelet.service",
        *(
            f"grep --fixed-strings --line-regexp {shlex.quote(line)} {path}"
            for path, content in _NETWORK_FILES.items()
            for line in content.splitlines()
            if line.startswith(("MACAddressPolicy", "Manage"))
        ),
        *(f'test "$(readlink /etc/systemd/system/{unit})" = /dev/null' for unit in _MASKED),
        *(
            f"ctr --namespace k8s.io images list --quiet | grep --fixed-strings --line-regexp {shlex.quote(one)}"
            for one in images
        ),
    ]


def _script(name: str, commands: Sequence[str]) -> dict[str, Any]:
    lines = ["set -euo pipefail", *commands]
    for line in lines:
        _no_placeholder(line)
    return {"name": name, "action": "ExecuteBash", "inputs": {"commands": ["\n".join(lines) + "\n"]}}


def _file(name: str, files: Mapping[str, str]) -> dict[str, Any]:
    for content in files.values():
        _no_placeholder(content)
    written = [{"path": path, "content": content, "overwrite": True} for path, content in files.items()]
    return {"name": name, "action": "CreateFile", "inputs": written}


def _ended(text: str) -> str:
    return text if text.endswith("\n") else f"{text}\n"


def _no_placeholder(text: str) -> None:
    if "{{" in text:
        raise RecipeError(f"{text.strip()!r} must not contain {{{{, which Image Builder would replace")


def _within_limit(text: str) -> str:
    if len(text) > LIMIT_CHARACTERS:
        raise RecipeError(
            f"the build document has {len(text)} characters, and Image Builder takes {LIMIT_CHARACTERS}:"
            " shorten source, or preload fewer images"
        )
    return text
