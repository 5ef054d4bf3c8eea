"""Instance types that stacks still name and moto no longer describes, as EC2's documentation gives them."""

from tools.local.fleet_nodes import MIB, InstanceType


def _gpu_type(name: str, *, cores: int, memory_gib: int, gpus: int, interfaces: int, addresses: int) -> InstanceType:
    return InstanceType(
        name=name,
        architecture="amd64",
        cores=cores,
        memory_bytes=memory_gib * 1024 * MIB,
        nvidia_gpus=gpus,
        network_interfaces=interfaces,
        addresses_per_interface=addresses,
    )


RETIRED = {
    kind.name: kind
    for kind in (
        _gpu_type("p2.xlarge", cores=4, memory_gib=61, gpus=1, interfaces=4, addresses=15),
        _gpu_type("p2.8xlarge", cores=32, memory_gib=488, gpus=8, interfaces=8, addresses=30),
        _gpu_type("p2.16xlarge", cores=64, memory_gib=732, gpus=16, interfaces=8, addresses=30),
        _gpu_type("p3.2xlarge", cores=8, memory_gib=61, gpus=1, interfaces=4, addresses=15),
        _gpu_type("p3.8xlarge", cores=32, memory_gib=244, gpus=4, interfaces=8, addresses=30),
        _gpu_type("p3.16xlarge", cores=64, memory_gib=488, gpus=8, interfaces=8, addresses=30),
    )
}
