"""The catalogue says what a machine of each type has, reads back as it was written, and never grows too large."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.api import keys, machine_catalogue, quantities
from autoscaler.api.machine_catalogue import MachineResources, NodeLabel
from autoscaler.api.resources import Machine
from autoscaler.api.resources.machines import TYPES_MAX, MachineSpec
from tests import builders

GIB = 1 << 30
SIZE_MAX = 1 << 20
"""What the API server takes."""


def machine_type(name: str, **spec: object) -> dict[str, object]:
    return {"name": name, "spec": spec or {"cpu": "2", "memory": "4Gi"}, "available": 1}


def spec_of(*types: dict[str, object]) -> MachineSpec:
    made = builders.resource("Machine", machineTypes=list(types), nodePool=[])
    return Machine.model_validate(made).spec


PARENT = machine_type("parent", cpu="7999m", memory="1001")


def test_a_machine_has_no_more_than_kubernetes_can_write() -> None:
    got = machine_catalogue.resolve(spec_of(machine_type("vast", cpu="1e30", memory="1e30")))["vast"]
    assert got.requests() == {"cpu": "9223372036854775807m", "memory": "9223372036854775807"}


@pytest.mark.accept("M9", part="dependence")
@pytest.mark.parametrize(
    ("child", "want"),
    [
        ({}, MachineResources(cpu_millis=2639, memory_bytes=330, parent="parent")),
        ({"cpu": "1"}, MachineResources(cpu_millis=1000, memory_bytes=330, parent="parent")),
        ({"memory": "1Gi"}, MachineResources(cpu_millis=2639, memory_bytes=GIB, parent="parent")),
    ],
)
def test_a_child_has_its_fraction_of_what_it_leaves_out_rounded_down(
    child: dict[str, object], want: MachineResources
) -> None:
    dependence = {"parent": "parent", "availableRatio": 33}
    spec = spec_of(machine_type("child", dependence=dependence, **child), PARENT)
    assert machine_catalogue.resolve(spec)["child"] == want


@pytest.mark.accept("M9", part="dependence")
@given(cpu_millis=st.integers(1, 10**6), memory=st.integers(1, 10**14), ratio=st.integers(1, 100))
def test_a_childs_fraction_is_exact(cpu_millis: int, memory: int, ratio: int) -> None:
    parent = machine_type("parent", cpu=f"{cpu_millis}m", memory=str(memory))
    child = machine_type("child", dependence={"parent": "parent", "availableRatio": ratio})
    got = machine_catalogue.resolve(spec_of(parent, child))["child"]
    assert (got.cpu_millis, got.memory_bytes) == (cpu_millis * ratio // 100, memory * ratio // 100)


def test_a_child_does_not_have_its_parents_gpus() -> None:
    gpu = {"type": "nvidia.com/gpu", "num": 4, "family": "ampere"}
    parent = machine_type("parent", cpu="8", memory="8Gi", gpu=gpu)
    child = machine_type("child", dependence={"parent": "parent", "availableRatio": 25})
    resolved = machine_catalogue.resolve(spec_of(parent, child))
    assert (resolved["parent"].gpus, resolved["child"].gpus) == (4, 0)
    assert resolved["child"].gpu_label is None


@pytest.mark.accept("M2", part="the GPU label")
@pytest.mark.parametrize(
    ("given_as", "want"), [("family", keys.GPU_FAMILY), ("product", keys.GPU_PRODUCT), ("machine", keys.GPU_MACHINE)]
)
def test_a_gpu_is_known_by_a_label_of_nodes(given_as: str, want: str) -> None:
    gpu = {"type": "nvidia.com/gpu", "num": 2, given_as: "DGX-1"}
    (machine,) = machine_catalogue.resolve(spec_of(machine_type("t", cpu="1", memory="1Gi", gpu=gpu))).values()
    assert (machine.gpus, machine.gpu_label) == (2, NodeLabel(want, "DGX-1"))
    assert machine.requests() == {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "2"}


@pytest.mark.accept("M2", part="the catalogue")
def test_the_catalogue_has_one_key_for_each_fact_and_names_what_is_known() -> None:
    gpu = {"type": "nvidia.com/gpu", "num": 2, "product": "RTX"}
    big = machine_type("xlarge", cpu="40000m", memory="128Gi", gpu=gpu)
    spec = spec_of(big, machine_type("medium", cpu="1500m", memory="48Gi"))
    got = machine_catalogue.catalogue([("general", spec), ("bare", spec_of(machine_type("only")))])
    assert got.left_out == ()
    assert got.data == {
        "bare.only.cpu": "2",
        "bare.only.memory": "4Gi",
        "bare.types": "only",
        "general.medium.cpu": "1500m",
        "general.medium.memory": "48Gi",
        "general.types": "medium, xlarge",
        "general.xlarge.cpu": "40",
        "general.xlarge.gpu": "2",
        "general.xlarge.gpu-label": "nvidia.com/gpu.product",
        "general.xlarge.gpu-value": "RTX",
        "general.xlarge.memory": "128Gi",
        "groups": "bare, general",
    }


def test_an_empty_catalogue_says_so() -> None:
    assert machine_catalogue.catalogue([]).data == {"groups": "none"}


QUANTITIES = st.tuples(st.integers(1, 5000), st.sampled_from(["", "k", "Mi", "Gi"])).map(
    lambda made: "".join(map(str, made))
)
GPUS = st.none() | st.builds(
    lambda num, kind, value: {"type": "nvidia.com/gpu", "num": num, kind: value},
    st.integers(1, 8),
    st.sampled_from(["family", "product", "machine"]),
    st.sampled_from(["ampere", "DGX-1", ""]),
)


@given(cpu_millis=st.integers(1, 10**7), memory=QUANTITIES, gpu=GPUS)
def test_what_is_written_is_read_back(cpu_millis: int, memory: str, gpu: dict[str, object] | None) -> None:
    machine = machine_type("t", cpu=f"{cpu_millis}m", memory=memory, **({"gpu": gpu} if gpu else {}))
    spec = spec_of(machine)
    want = machine_catalogue.resolve(spec)["t"]
    assert want.cpu_millis == cpu_millis
    assert want.memory_bytes == quantities.units(memory)
    assert machine_catalogue.find(machine_catalogue.catalogue([("g", spec)]).data, "g", "t") == want


def test_a_childs_parent_is_read_back() -> None:
    spec = spec_of(PARENT, machine_type("child", dependence={"parent": "parent", "availableRatio": 50}))
    data = machine_catalogue.catalogue([("g", spec)]).data
    found = {name: machine_catalogue.find(data, "g", name) for name in ("parent", "child")}
    assert found == machine_catalogue.resolve(spec)


@pytest.mark.parametrize(
    ("group", "type_name"), [("g", "x"), ("x", "t"), ("", "t"), ("g", ""), ("g.t", "cpu"), ("g", "t.cpu")]
)
def test_what_is_not_in_the_catalogue_is_not_found(group: str, type_name: str) -> None:
    data = machine_catalogue.catalogue([("g", spec_of(machine_type("t")))]).data
    assert machine_catalogue.find(data, group, type_name) is None


@pytest.mark.accept("M2", part="the catalogue")
def test_groups_beyond_what_a_config_map_holds_are_left_out_whole_and_named() -> None:
    gpu = {"type": "nvidia.com/gpu", "num": 8, "product": "NVIDIA-" + 56 * "x"}
    names = [f"type-{number:02d}-{'x' * 22}" for number in range(TYPES_MAX)]
    full = spec_of(*(machine_type(name, cpu="40001m", memory="128Gi", gpu=gpu) for name in names))
    groups = [f"group-{number:03d}-{'x' * 8}" for number in range(200)]
    got = machine_catalogue.catalogue([(group, full) for group in groups])
    kept = [group for group in groups if f"{group}.types" in got.data]
    assert got.left_out == tuple(groups[len(kept) :])
    assert 50 < len(kept) < 200
    assert 0.8 * SIZE_MAX < sum(len(key) + len(value) + 8 for key, value in got.data.items()) < SIZE_MAX
    assert all(machine_catalogue.find(got.data, group, name) for group in kept for name in names)
    small = machine_catalogue.catalogue([*((group, full) for group in groups), ("small", spec_of(machine_type("t")))])
    assert machine_catalogue.find(small.data, "small", "t")


def test_as_many_groups_are_named_as_a_refusal_holds() -> None:
    spec = spec_of(machine_type("t"))
    groups = [f"group-{number:04d}" for number in range(1000)]
    text = machine_catalogue.catalogue([(group, spec) for group in groups]).data["groups"]
    assert len(text) <= machine_catalogue.NAMED_MAX
    shown, _, more = text.rpartition(", and ")
    assert shown.split(", ") == groups[: len(shown.split(", "))]
    assert more == f"{1000 - len(shown.split(', '))} more"
