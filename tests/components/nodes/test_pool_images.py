"""What pipelines build must suit the pools that use it; what does not is refused in config/test_bad_input.py."""

from typing import Any

import pytest

from tests.components import configs


def debian(types: Any, **image: Any) -> dict[str, Any]:
    work = configs.pool(instanceTypes=types, image={"pipeline": "deb"})
    return configs.values(
        machineImages={"deb": {"baseImageId": "ami-12345678", **image}},
        clusters={"bench": configs.cluster(nodePools={"services": configs.SERVICES, "work": work})},
    )


@pytest.mark.parametrize(("builder", "kind"), [("m7i.large", "c5.18xlarge"), ("m7g.large", "m7g.xlarge")])
def test_a_pool_may_have_types_of_the_architecture_that_its_image_was_built_on(builder: str, kind: str) -> None:
    loaded = configs.load(debian([kind], instanceType=builder))
    assert not [told for told in loaded.warnings if "driver" in told]


def test_gpus_without_a_driver_are_told() -> None:
    want = "cluster bench: pool work has GPUs (g5.12xlarge), and the pipeline deb installs no NVIDIA driver"
    assert [told for told in configs.load(debian(["g5.12xlarge"])).warnings if told.startswith(want)]


def test_gpus_on_the_image_of_eks_have_their_driver() -> None:
    pools = {"services": configs.SERVICES, "work": configs.pool(instanceTypes=["g5.12xlarge"])}
    loaded = configs.of_cluster(configs.cluster(nodePools=pools))
    assert not [told for told in loaded.warnings if "driver" in told]
