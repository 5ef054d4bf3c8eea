import json
import subprocess
from typing import Any

import pytest
import yaml

from components import userdata
from components.config.stack import MachineImage
from components.nodes import image_recipe
from tests.components import configs

SOURCE = "Types: deb\nURIs: https://example.org/debian\nSuites: trixie\nComponents: main"


def config(**fields: Any) -> MachineImage:
    return MachineImage.model_validate_json(json.dumps({"baseImageId": "ami-00000009", **fields}))


def written(**fields: Any) -> dict[str, Any]:
    return of(config(**fields))


def of(image: MachineImage) -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load(image_recipe.document(image, kubernetes_version="1.36"))
    return read


def steps(document: dict[str, Any], phase: str = "build") -> dict[str, Any]:
    (found,) = [one for one in document["phases"] if one["name"] == phase]
    return {step["name"]: step for step in found["steps"]}


def script(document: dict[str, Any], name: str, phase: str = "build") -> str:
    step = steps(document, phase)[name]
    assert step["action"] == "ExecuteBash"
    (text,) = step["inputs"]["commands"]
    return str(text)


def files(document: dict[str, Any], name: str) -> dict[str, str]:
    step = steps(document)[name]
    assert step["action"] == "CreateFile"
    return {one["path"]: one["content"] for one in step["inputs"]}


@pytest.mark.accept("P18")
def test_the_defaults_are_unshare_autopkgtest_and_sbuild() -> None:
    made = image_recipe.packages(config())
    assert {"uidmap", "autopkgtest", "sbuild", "containerd", "awscli"} <= set(made)
    assert not {"incus", "debvm"} & set(made)
    assert list(made) == sorted(set(made))


@pytest.mark.accept("P18")
@pytest.mark.parametrize(
    ("fields", "want"),
    [
        ({"enableBackends": ["incus"]}, "incus"),
        ({"enableTasks": ["mmdebstrap"]}, "mmdebstrap"),
        ({"enableTasks": ["simplesystemimagebuild"]}, "debvm"),
    ],
)
def test_backends_and_tasks_bring_their_packages(fields: dict[str, Any], want: str) -> None:
    assert want in image_recipe.packages(config(**fields))
    assert f" {want}" in script(written(**fields), "InstallPackages")


@pytest.mark.accept("P18")
def test_a_source_is_there_before_anything_is_installed() -> None:
    document = written(source=SOURCE)
    assert list(steps(document))[:2] == ["AddSource", "InstallPackages"]
    assert files(document, "AddSource") == {"/etc/apt/sources.list.d/sluice.sources": f"{SOURCE}\n"}
    assert "AddSource" not in steps(written())


@pytest.mark.accept("P18")
def test_preloaded_images_are_pinned_and_checked() -> None:
    document = written(preloadedImages=["docker.io/library/debian:13"])
    want = "pull --label io.cri-containerd.pinned=pinned docker.io/library/debian:13"
    assert want in script(document, "PreloadImages")
    assert "grep --fixed-strings --line-regexp docker.io/library/debian:13" in script(document, "CheckNode", "validate")
    assert "PreloadImages" not in steps(written())


def test_private_images_are_pulled_with_the_instances_own_role() -> None:
    image = "123456789012.dkr.ecr.eu-west-1.amazonaws.com/worker:1"
    text = script(written(preloadedImages=[image]), "PreloadImages")
    assert '--user "AWS:$(aws ecr get-login-password --region eu-west-1)"' in text


def test_what_a_user_wrote_stays_a_value() -> None:
    unchecked = config().model_copy(update={"preloaded_images": ("a; reboot",)})
    text = script(of(unchecked), "PreloadImages")
    assert text.endswith(" 'a; reboot'\n")


@pytest.mark.parametrize("fields", [{"source": "Types: {{ x }}"}, {"preloaded_images": ("{{ x }}",)}])
def test_placeholders_of_the_agent_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(image_recipe.RecipeError, match="Image Builder would replace"):
        of(config().model_copy(update=fields))


def test_a_document_that_is_too_long_is_refused() -> None:
    with pytest.raises(image_recipe.RecipeError, match="takes 16000"):
        written(preloadedImages=[f"{'x' * 200}:{number}" for number in range(32)], source=f"A: {'b' * 4000}")


@pytest.mark.accept("P18")
def test_the_image_has_what_its_user_data_counts_on() -> None:
    checks = script(written(), "CheckNode", "validate")
    assert all(f"test -x {program}\n" in checks for program in userdata.DEBIAN_IMAGE_HAS)
    configured = files(written(), "ConfigureNode")
    assert "/etc/systemd/system/kubelet.service" in configured
    assert 'bin_dir = "/opt/cni/bin"' in configured["/etc/containerd/config.toml"]
    assert "SystemdCgroup = true" in configured["/etc/containerd/config.toml"]
    assert "--prefix 1.36." in script(written(), "InstallKubelet")


def test_every_script_is_one_that_bash_understands_and_stops_at_the_first_failure() -> None:
    document = written(source=SOURCE, enableBackends=["unshare", "incus"], preloadedImages=["x.dkr.ecr.eu-west-1.y/z"])
    scripts = [
        step["inputs"]["commands"][0]
        for phase in document["phases"]
        for step in phase["steps"]
        if step["action"] == "ExecuteBash"
    ]
    assert len(scripts) == 6
    for text in scripts:
        assert text.startswith("set -euo pipefail\n")
        subprocess.run(["bash", "-n"], input=text, text=True, check=True)


def test_the_kubelet_is_newer_than_no_cluster_that_uses_the_image() -> None:
    pools = {"services": configs.SERVICES, "work": configs.pool(image={"pipeline": "builder"})}
    newer = {"kubernetesVersion": "1.37", "nodeImage": {"release": "1.37.1-20261101"}}
    values = configs.values(
        machineImages={"builder": {"baseImageId": "ami-00000009"}, "other": {"baseImageId": "ami-00000009"}},
        clusters={"old": configs.cluster(), "new": configs.cluster(**newer, nodePools=pools)},
    )
    stack = configs.load(values).stack.config
    assert image_recipe.kubernetes_version(stack, "builder") == "1.37"
    assert image_recipe.kubernetes_version(stack, "other") == "1.36"


def test_another_recipe_has_another_digest() -> None:
    assert image_recipe.digest("a", "b") == image_recipe.digest("a", "b")
    assert image_recipe.digest("a", "b") != image_recipe.digest("ab", "")


@pytest.mark.parametrize(
    ("region", "want"),
    [
        ("eu-west-1", "https://s3.eu-west-1.amazonaws.com/amazon-ssm-eu-west-1/latest/debian_"),
        ("cn-north-1", "https://s3.cn-north-1.amazonaws.com.cn/amazon-ssm-cn-north-1/latest/debian_"),
    ],
)
def test_a_build_instance_gets_the_agent_of_its_region(region: str, want: str) -> None:
    text = image_recipe.user_data(region)
    assert text.startswith("#!/bin/sh\nset -eu\n")
    assert f'{want}$(dpkg --print-architecture)/amazon-ssm-agent.deb"\n' in text
    subprocess.run(["sh", "-n"], input=text, text=True, check=True)


def test_nothing_on_the_node_touches_the_interfaces_of_pods() -> None:
    """As EKS' own image is set up: the VPC CNI attaches interfaces and writes their routes and rules."""
    made = written()
    found = files(made, "ConfigureNode")
    assert "MACAddressPolicy=none" in found["/etc/systemd/network/99-default.link"].splitlines()
    networkd = found["/etc/systemd/networkd.conf.d/90-sluice.conf"].splitlines()
    assert networkd == ["[Network]", "ManageForeignRoutes=no", "ManageForeignRoutingPolicyRules=no"]
    units = "policy-routes@.service refresh-policy-routes@.service refresh-policy-routes@.timer"
    assert f"systemctl mask {units}" in script(made, "Enable")
    checked = script(made, "CheckNode", "validate")
    for line in ("MACAddressPolicy=none", "ManageForeignRoutes=no", "ManageForeignRoutingPolicyRules=no"):
        assert f"grep --fixed-strings --line-regexp {line} /etc/systemd/" in checked
    for unit in units.split():
        assert f'test "$(readlink /etc/systemd/system/{unit})" = /dev/null' in checked
