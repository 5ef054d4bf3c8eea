"""A claim that names no class gets a disk of its own, encrypted, where its pod is."""

import pulumi_kubernetes as k8s

from components.eks import storage
from tests.components import monitor


def run() -> monitor.World:
    def program() -> None:
        driver = k8s.core.v1.ServiceAccount("driver")
        storage.Storage("s", storage.StorageArgs(provider=k8s.Provider("plane"), after=[driver]))

    return monitor.run(program)


def test_claims_without_a_class_get_encrypted_disks_in_the_zone_of_their_pod() -> None:
    made = run().one(":StorageClass", "s").inputs
    assert made["metadata"]["name"] == "gp3"
    assert made["metadata"]["annotations"] == {"storageclass.kubernetes.io/is-default-class": "true"}
    assert made["provisioner"] == "ebs.csi.aws.com"
    assert made["parameters"] == {"type": "gp3", "encrypted": "true"}
    assert made["volumeBindingMode"] == "WaitForFirstConsumer"
    assert made["allowVolumeExpansion"] is True


def test_the_class_is_in_its_cluster_and_goes_before_the_driver() -> None:
    world = run()
    made = world.one(":StorageClass")
    assert made.parent == world.one(":Storage").urn
    assert "::plane::" in made.provider
    assert made.waits_for(world.one(":ServiceAccount", "driver"))
