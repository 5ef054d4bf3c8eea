"""Bootstrap text parses back to what was given, holds no secret, and never lets a value become anything else."""

import base64
import email
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.api import keys
from autoscaler.api.resources.types import Taint, TaintEffect
from components import userdata

CERTIFICATE = base64.b64encode(b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n").decode()
LABELS = {
    keys.NODE_TYPE: "bai-worker",
    keys.INSTANCE_POOL: "bench-worker",
    keys.ZONE_BETA: "eu-west-1a",
    keys.tag_label("cores"): "72",
}
TAINTS = (
    Taint(key=keys.INSTANCE_POOL, value="bench-worker", effect=TaintEffect.PREFER_NO_SCHEDULE),
    Taint(key=keys.RESERVED_FOR, value="none", effect=TaintEffect.NO_SCHEDULE),
    Taint(key="bare", effect=TaintEffect.NO_EXECUTE),
)
WRITERS: tuple[Callable[[userdata.NodeBootstrap], str], ...] = (userdata.al2023, userdata.debian)

WORD = st.from_regex(r"\A[A-Za-z0-9]([-A-Za-z0-9_.]{0,20}[A-Za-z0-9])?\Z")
KEY = st.one_of(WORD, st.tuples(st.from_regex(r"\A[a-z0-9]{1,9}\.example\Z"), WORD).map("/".join))
GOOD_LABELS = st.dictionaries(KEY, st.one_of(st.just(""), WORD), max_size=8)
TAINT = st.tuples(KEY, st.one_of(st.just(""), WORD), st.sampled_from(TaintEffect)).map(
    lambda parts: Taint(key=parts[0], value=parts[1], effect=parts[2])
)
HOSTILE = st.sampled_from(
    ["x,admin=true", "x\n--SLUICE--", "a b", "${NODE_NAME}", "%H", "'\n  flags: []", "x\x00", "ü", "a=b", "\n", "x\n"]
)


def bootstrap(**changes: Any) -> userdata.NodeBootstrap:
    defaults: dict[str, Any] = {
        "cluster": "bench",
        "region": "eu-west-1",
        "endpoint": "https://0123456789ABCDEF.gr7.eu-west-1.eks.amazonaws.com",
        "certificate_authority": CERTIFICATE,
        "service_cidr": "10.100.0.0/16",
        "labels": LABELS,
        "taints": TAINTS,
        "max_pods": 250,
        "vcpus": 72,
    }
    return userdata.NodeBootstrap(**(defaults | changes))


def node_config(text: str) -> dict[str, Any]:
    """Read AL2023's user data as nodeadm does: the one part of its own content type."""
    (part,) = (each for each in email.message_from_string(text).walk() if not each.is_multipart())
    assert part.get_content_type() == "application/node.eks.aws"
    (document,) = yaml.safe_load_all(str(part.get_payload()))
    return dict(document)


def debian_files(text: str) -> dict[str, str]:
    """Read Debian's user data as cloud-init does: the files it writes."""
    assert text.startswith("#cloud-config\n")
    files = {file["path"]: file for file in yaml.safe_load(text)["write_files"]}
    return {
        path: base64.b64decode(file["content"]).decode() if file.get("encoding") == "b64" else file["content"]
        for path, file in files.items()
    }


def flags_of(text: str) -> list[str]:
    """Return the kubelet's flags, as the one or the other kind of user data gives them."""
    if text.startswith("MIME"):
        flags: list[str] = node_config(text)["spec"]["kubelet"]["flags"]
        return flags
    unit = debian_files(text)["/etc/systemd/system/kubelet.service.d/20-sluice.conf"]
    (command,) = re.findall(r"^ExecStart=(/.*)$", unit, flags=re.MULTILINE)
    return str(command).split()[1:]


def labels_of(text: str) -> dict[str, str]:
    """Read --node-labels as the kubelet does."""
    given = [flag.partition("=")[2] for flag in flags_of(text) if flag.startswith("--node-labels=")]
    pairs = [pair.partition("=") for flag in given for pair in flag.split(",")]
    return {key: value for key, _, value in pairs}


def taints_of(text: str) -> set[tuple[str, str, str]]:
    """Read taints as the kubelet does: from its flag, or from its configuration."""
    given = [flag.partition("=")[2] for flag in flags_of(text) if flag.startswith("--register-with-taints=")]
    parts = [re.fullmatch("([^=:]+)=([^=:]*):([^=:]+)", each) for flag in given for each in flag.split(",")]
    found = {(part[1], part[2], part[3]) for part in parts if part}
    if text.startswith("#cloud-config"):
        configuration = yaml.safe_load(debian_files(text)["/etc/kubernetes/kubelet.yaml"])
        found |= {
            (taint["key"], taint["value"], taint["effect"]) for taint in configuration.get("registerWithTaints", [])
        }
    return found


def as_set(taints: Sequence[Taint]) -> set[tuple[str, str, str]]:
    return {(taint.key, taint.value, str(taint.effect)) for taint in taints}


def test_al2023_gets_a_node_config_that_nodeadm_reads() -> None:
    labels = "failure-domain.beta.kubernetes.io/zone=eu-west-1a,node.type=bai-worker"
    labels += ",sluice.dev/instance-pool=bench-worker,tag.sluice.dev/cores=72"
    taints = "bare=:NoExecute,sluice.dev/instance-pool=bench-worker:PreferNoSchedule"
    taints += ",sluice.dev/reserved-for=none:NoSchedule"
    want = {
        "apiVersion": "node.eks.aws/v1alpha1",
        "kind": "NodeConfig",
        "spec": {
            "cluster": {
                "name": "bench",
                "apiServerEndpoint": "https://0123456789ABCDEF.gr7.eu-west-1.eks.amazonaws.com",
                "certificateAuthority": CERTIFICATE,
                "cidr": "10.100.0.0/16",
            },
            "kubelet": {
                "config": {
                    "maxPods": 250,
                    "kubeReserved": {"cpu": "250m", "memory": "3005Mi", "ephemeral-storage": "1Gi"},
                    "evictionHard": {"memory.available": "100Mi", "nodefs.available": "10%", "nodefs.inodesFree": "5%"},
                },
                "flags": [f"--node-labels={labels}", f"--register-with-taints={taints}"],
            },
        },
    }
    assert node_config(userdata.al2023(bootstrap())) == want


def test_without_labels_and_taints_there_are_no_flags() -> None:
    config = node_config(userdata.al2023(bootstrap(labels={}, taints=())))
    assert config["spec"]["kubelet"]["flags"] == []


@pytest.mark.accept("G3")
@pytest.mark.parametrize("write", WRITERS)
def test_the_kubelet_sets_the_node_type(write: Callable[[userdata.NodeBootstrap], str]) -> None:
    assert labels_of(write(bootstrap()))[keys.NODE_TYPE] == "bai-worker"


@pytest.mark.parametrize("write", WRITERS)
@given(labels=GOOD_LABELS, taints=st.lists(TAINT, max_size=5))
def test_labels_and_taints_parse_back_to_what_was_given(
    write: Callable[[userdata.NodeBootstrap], str], labels: Mapping[str, str], taints: list[Taint]
) -> None:
    text = write(bootstrap(labels=labels, taints=taints))
    assert labels_of(text) == labels
    assert taints_of(text) == as_set(taints)


@pytest.mark.parametrize("write", WRITERS)
@given(key=st.one_of(KEY, HOSTILE, st.text()), value=st.one_of(HOSTILE, st.text()))
def test_no_label_becomes_anything_but_that_label(
    write: Callable[[userdata.NodeBootstrap], str], key: str, value: str
) -> None:
    try:
        text = write(bootstrap(labels={key: value}))
    except userdata.UserDataError:
        return
    assert labels_of(text) == {key: value}


@pytest.mark.parametrize("write", WRITERS)
@given(value=HOSTILE, field=st.sampled_from(["cluster", "region", "endpoint", "certificate_authority", "service_cidr"]))
def test_no_other_value_breaks_out_either(
    write: Callable[[userdata.NodeBootstrap], str], value: str, field: str
) -> None:
    good = str(getattr(bootstrap(), field))
    for text in (value, good + value, value + good):
        with pytest.raises(userdata.UserDataError, match=field.split("_", maxsplit=1)[0]):
            write(bootstrap(**{field: text}))


@pytest.mark.parametrize("write", WRITERS)
def test_the_order_of_labels_and_taints_does_not_matter(write: Callable[[userdata.NodeBootstrap], str]) -> None:
    want = write(bootstrap())
    assert write(bootstrap(labels=dict(reversed(LABELS.items())), taints=TAINTS[::-1])) == want


@pytest.mark.accept("S10", "P19")
@pytest.mark.parametrize("write", WRITERS)
def test_user_data_holds_no_token_or_key(write: Callable[[userdata.NodeBootstrap], str]) -> None:
    text = write(bootstrap())
    for secret in (
        r"eyJ[A-Za-z0-9_-]{10}",
        "k8s-aws-v1",
        "AKIA",
        "ASIA",
        "PRIVATE KEY",
        r"(?i)password",
        r"(?i)bearer",
    ):
        assert not re.search(secret, text), secret
    fields = set(re.findall(r"(?i)^\W*([a-z-]*(?:token|secret|client-key)[a-z-]*):\s*\S", text, flags=re.MULTILINE))
    assert not fields


@pytest.mark.accept("P18", "P19")
def test_debians_kubelet_proves_itself_with_the_instance_role() -> None:
    files = debian_files(userdata.debian(bootstrap()))
    kubeconfig = yaml.safe_load(files["/etc/kubernetes/kubelet.kubeconfig"])
    (user,) = kubeconfig["users"]
    assert user["user"].keys() == {"exec"}
    assert user["user"]["exec"]["args"] == ["eks", "get-token", "--cluster-name", "bench", "--region", "eu-west-1"]
    assert kubeconfig["clusters"][0]["cluster"] == {
        "server": "https://0123456789ABCDEF.gr7.eu-west-1.eks.amazonaws.com",
        "certificate-authority": "/etc/kubernetes/ca.crt",
    }
    assert files["/etc/kubernetes/ca.crt"].startswith("-----BEGIN CERTIFICATE-----")


@pytest.mark.accept("P18")
def test_debians_kubelet_is_configured_like_one_of_eks() -> None:
    text = userdata.debian(bootstrap())
    configuration = yaml.safe_load(debian_files(text)["/etc/kubernetes/kubelet.yaml"])
    assert configuration["authentication"]["anonymous"] == {"enabled": False}
    assert configuration["authorization"] == {"mode": "Webhook"}
    assert configuration["clusterDNS"] == ["10.100.0.10"]
    limits = node_config(userdata.al2023(bootstrap()))["spec"]["kubelet"]["config"]
    assert {name: configuration[name] for name in limits} == limits
    assert "--cloud-provider=external" in flags_of(text)


def test_debian_starts_only_programs_that_its_image_has() -> None:
    text = userdata.debian(bootstrap())
    programs = set(re.findall(r"(?<![\w/])/usr/(?:bin|local/lib)/[\w/-]+", text))
    directories = {str(Path(program).parent) for program in userdata.DEBIAN_IMAGE_HAS}
    assert programs <= {*userdata.DEBIAN_IMAGE_HAS, *directories}
    assert "/usr/bin/kubelet" in programs


def test_debians_identity_script_writes_what_imds_says(tmp_path: Path) -> None:
    script = debian_files(userdata.debian(bootstrap()))["/usr/local/sbin/sluice-node-identity"]
    curl = tmp_path / "curl"
    curl.write_text(
        "#!/bin/sh\n"
        'for last in "$@"; do :; done\n'
        "case $last in\n"
        "*/api/token) echo session;;\n"
        "*/local-hostname) echo 'ip-10-0-0-7.ec2.internal other.example';;\n"
        "*/local-ipv4) echo 10.0.0.7;;\n"
        "*/availability-zone) echo eu-west-1a;;\n"
        "*/instance-id) echo i-0123;;\n"
        "esac\n"
    )
    curl.chmod(0o755)
    written = tmp_path / "node.env"
    script = script.replace("/etc/kubernetes/node.env", str(written))
    subprocess.run(["/bin/sh", "-c", script], check=True, env={"PATH": f"{tmp_path}:/usr/bin:/bin"})
    want = "NODE_NAME=ip-10-0-0-7.ec2.internal\nNODE_IP=10.0.0.7\nPROVIDER_ID=aws:///eu-west-1a/i-0123\n"
    assert written.read_text() == want


@pytest.mark.parametrize("write", WRITERS)
def test_too_much_user_data_is_refused_with_both_numbers(write: Callable[[userdata.NodeBootstrap], str]) -> None:
    labels = {f"{'domain-' * 30}.example/{number}-{'k' * 40}": "v" * 60 for number in range(64)}
    with pytest.raises(userdata.UserDataError, match=r"user data has \d{5} bytes, and EC2 takes at most 16384"):
        write(bootstrap(labels=labels))


def test_all_faults_are_told_at_once() -> None:
    with pytest.raises(userdata.UserDataError) as caught:
        bootstrap(
            cluster="", service_cidr="10.0.0.0/30", max_pods=0, vcpus=0, labels={"a b": "", "kubernetes.io/role": "x"}
        )
    told = str(caught.value).split("; ")
    assert [text.split()[0] for text in told] == ["cluster", "service", "max", "vcpus", "label", "label"]


@pytest.mark.parametrize(
    "key",
    [
        "node.type",
        "sluice.dev/instance-pool",
        "failure-domain.beta.kubernetes.io/zone",
        "topology.kubernetes.io/zone",
        "node.kubernetes.io/instance-type",
        "node.kubernetes.io/anything",
        "special.node.kubernetes.io/anything",
        "kubelet.kubernetes.io/anything",
        "kubernetes.io/arch",
        "notkubernetes.io/role",
    ],
)
def test_labels_that_a_kubelet_may_set_are_taken(key: str) -> None:
    assert userdata.refused_labels({key: "x"}) == {}


@pytest.mark.parametrize(
    "key",
    [
        "kubernetes.io/role",
        "node-role.kubernetes.io/worker",
        "node-restriction.kubernetes.io/team",
        "topology.kubernetes.io/rack",
        "k8s.io/anything",
        "cluster-autoscaler.k8s.io/x",
        "notnode.kubernetes.io/x",
    ],
)
def test_labels_that_a_kubelet_may_not_set_are_refused_with_the_reason(key: str) -> None:
    refused = userdata.refused_labels({key: "x", "fine": "y"})
    assert refused.keys() == {key}
    assert f"a kubelet may not set labels of {key.partition('/')[0]}" in refused[key]


@pytest.mark.parametrize(
    ("architecture", "gpu", "want"),
    [
        ("amd64", False, "x86_64/standard/amazon-eks-node-al2023-x86_64-standard-1.36-v20261101"),
        ("amd64", True, "x86_64/nvidia/amazon-eks-node-al2023-x86_64-nvidia-1.36-v20261101"),
        ("arm64", False, "arm64/standard/amazon-eks-node-al2023-arm64-standard-1.36-v20261101"),
        ("arm64", True, "arm64/nvidia/amazon-eks-node-al2023-arm64-nvidia-1.36-v20261101"),
    ],
)
def test_a_release_names_the_parameter_with_its_image(architecture: str, gpu: bool, want: str) -> None:  # noqa: FBT001
    found = userdata.image_parameter("1.36.2-20261101", architecture, gpu=gpu)
    assert found == f"/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/{want}/image_id"


@pytest.mark.parametrize("release", ["1.36", "latest", "1.36.2-2026110", "1.36.2-20261101\n", "v1.36.2-20261101"])
def test_a_release_that_is_none_is_refused_with_an_example(release: str) -> None:
    with pytest.raises(userdata.UserDataError, match=r"must look like 1\.36\.2-20261101"):
        userdata.image_parameter(release, "amd64")
