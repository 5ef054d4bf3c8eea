"""What EC2 says becomes a file that people can review: pages joined, zones told apart, changes named, errors clear."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import moto
import moto.server
import pytest
from botocore import stub
from moto.ec2.models import instance_types

import components.regions.offerings
from tools import offerings

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client

ROOT = Path(__file__).parent.parent.parent
ACCOUNT = "123456789012"
FEW = ("c5.18xlarge", "m7g.large", "p3dn.24xlarge", "mac2.metal")
"""Types that moto is left with: describing all 1,400 of them takes it seconds."""


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "made-up")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "made-up")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
def client() -> "EC2Client":
    return boto3.client("ec2", region_name="us-west-2")


@pytest.fixture
def few_types(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = [kind for kind in instance_types.InstanceTypeBackend.instance_types if kind.name in FEW]
    monkeypatch.setattr(instance_types.InstanceTypeBackend, "instance_types", kept)
    offered = instance_types.INSTANCE_TYPE_OFFERINGS["availability-zone"]
    few = {region: [each for each in there if each["InstanceType"] in FEW] for region, there in offered.items()}
    monkeypatch.setitem(instance_types.INSTANCE_TYPE_OFFERINGS, "availability-zone", few)


def described(name: str, **changes: Any) -> dict[str, Any]:
    return {
        "InstanceType": name,
        "ProcessorInfo": {"SupportedArchitectures": ["x86_64"]},
        "VCpuInfo": {"DefaultVCpus": 4},
        "MemoryInfo": {"SizeInMiB": 8192},
        "NetworkInfo": {"MaximumNetworkInterfaces": 3, "Ipv4AddressesPerInterface": 10},
    } | changes


def zone(name: str, *, state: str = "available", kind: str = "availability-zone") -> dict[str, Any]:
    return {"ZoneName": name, "ZoneId": f"id-of-{name}", "State": state, "ZoneType": kind}


def offered(instance_type: str, location: str) -> dict[str, Any]:
    return {"InstanceType": instance_type, "LocationType": "availability-zone", "Location": location}


@contextlib.contextmanager
def answers(
    client: "EC2Client", zones: list[dict[str, Any]], offers: list[list[dict[str, Any]]], types: list[dict[str, Any]]
) -> Iterator[None]:
    """Let EC2 answer with these zones, these pages of offerings, and these types, one a page."""
    with stub.Stubber(client) as stubber:
        stubber.add_response("describe_availability_zones", {"AvailabilityZones": zones}, {"Filters": stub.ANY})
        for method, key, pages, wanted in (
            (
                "describe_instance_type_offerings",
                "InstanceTypeOfferings",
                offers,
                {"LocationType": "availability-zone"},
            ),
            ("describe_instance_types", "InstanceTypes", [[each] for each in types], {}),
        ):
            for number, page in enumerate(pages):
                more = {"NextToken": f"page-{number + 1}"} if number + 1 < len(pages) else {}
                token = {"NextToken": f"page-{number}"} if number else {}
                stubber.add_response(method, {key: page} | more, wanted | token)
        yield
        stubber.assert_no_pending_responses()


def offer(**changes: Any) -> components.regions.offerings.InstanceTypeOffer:
    defaults: dict[str, Any] = {
        "architecture": "amd64",
        "vcpus": 4,
        "memory_mib": 8192,
        "network_interfaces": 3,
        "addresses_per_interface": 10,
        "zones": ("us-west-2a", "us-west-2b"),
    }
    return components.regions.offerings.InstanceTypeOffer(**(defaults | changes))


def of(
    types: dict[str, components.regions.offerings.InstanceTypeOffer], **changes: Any
) -> components.regions.offerings.Offerings:
    zones = {f"us-west-2{letter}": f"usw2-az{letter}" for letter in "abc"}
    return components.regions.offerings.Offerings(**({"region": "us-west-2", "zones": zones, "types": types} | changes))


@pytest.mark.accept("G4")
def test_all_pages_are_read_and_each_type_gets_its_zones(client: "EC2Client") -> None:
    pages = [
        [offered("m7i.large", "us-west-2b")],
        [offered("c7i.large", "us-west-2a")],
        [offered("m7i.large", "us-west-2a")],
    ]
    with answers(
        client, [zone("us-west-2b"), zone("us-west-2a")], pages, [described("m7i.large"), described("c7i.large")]
    ):
        found = offerings.fetch(client, "us-west-2").offerings
    assert list(found.zones.items()) == [("us-west-2a", "id-of-us-west-2a"), ("us-west-2b", "id-of-us-west-2b")]
    assert {name: each.zones for name, each in found.types.items()} == {
        "c7i.large": ("us-west-2a",),
        "m7i.large": ("us-west-2a", "us-west-2b"),
    }
    assert not found.example


def test_local_zones_and_zones_that_are_down_are_left_out(client: "EC2Client") -> None:
    zones = [zone("us-west-2a"), zone("us-west-2b", state="impaired"), zone("us-west-2-lax-1a", kind="local-zone")]
    pages = [[offered("m7i.large", each["ZoneName"]) for each in zones]]
    with answers(client, zones, pages, [described("m7i.large")]):
        found = offerings.fetch(client, "us-west-2").offerings
    assert list(found.zones) == ["us-west-2a"]
    assert found.types["m7i.large"].zones == ("us-west-2a",)


def test_only_availability_zones_that_are_up_are_asked_for(client: "EC2Client") -> None:
    want = [{"Name": "zone-type", "Values": ["availability-zone"]}, {"Name": "state", "Values": ["available"]}]
    with stub.Stubber(client) as stubber:
        stubber.add_response("describe_availability_zones", {"AvailabilityZones": []}, {"Filters": want})
        with pytest.raises(offerings.RefreshError, match="is the region enabled for this account"):
            offerings.fetch(client, "us-west-2")


def test_a_type_without_description_is_left_out_and_named(client: "EC2Client") -> None:
    pages = [[offered("m7i.large", "us-west-2a"), offered("p2.xlarge", "us-west-2a")]]
    with answers(client, [zone("us-west-2a")], pages, [described("m7i.large")]):
        fetched = offerings.fetch(client, "us-west-2")
    assert list(fetched.offerings.types) == ["m7i.large"]
    assert fetched.undescribed == ("p2.xlarge",)


@pytest.mark.parametrize(
    ("gpus", "want"),
    [
        ([{"Manufacturer": "NVIDIA", "Name": "V100", "Count": 4}], (4, "V100")),
        ([{"Manufacturer": "NVIDIA", "Name": "L4", "Count": 0, "LogicalGpuCount": 1}], (1, "L4")),
        ([{"Manufacturer": "AMD", "Name": "Radeon", "Count": 1}], (0, None)),
        ([], (0, None)),
    ],
)
def test_gpus_of_nvidia_are_counted_as_a_node_sees_them(
    client: "EC2Client", gpus: list[dict[str, Any]], want: tuple[int, str | None]
) -> None:
    kind = described("g1.large", GpuInfo={"Gpus": gpus})
    with answers(client, [zone("us-west-2a")], [[offered("g1.large", "us-west-2a")]], [kind]):
        found = offerings.fetch(client, "us-west-2").offerings.types["g1.large"]
    assert (found.gpus, found.gpu_name) == want


@pytest.mark.parametrize(
    ("supported", "want"), [(["i386", "x86_64"], "amd64"), (["arm64"], "arm64"), (["arm64_mac"], None)]
)
def test_processors_are_named_as_kubernetes_does_and_macs_left_out(
    client: "EC2Client", supported: list[str], want: str | None
) -> None:
    kind = described("x1.large", ProcessorInfo={"SupportedArchitectures": supported})
    with answers(client, [zone("us-west-2a")], [[offered("x1.large", "us-west-2a")]], [kind]):
        fetched = offerings.fetch(client, "us-west-2")
    assert [each.architecture for each in fetched.offerings.types.values()] == ([want] if want else [])
    assert fetched.foreign == (() if want else ("x1.large",))


def test_a_rendered_file_reads_back_the_same_with_one_line_per_type() -> None:
    found = of({"c7i.large": offer(), "p3.2xlarge": offer(gpus=1, gpu_name="RTX PRO: {6000}, #1")}, example=True)
    text = offerings.render(found)
    assert components.regions.offerings.parse(text) == found
    assert sum(line.startswith("  p3.2xlarge: {") and line.endswith("}") for line in text.splitlines()) == 1
    assert "# example data, not checked against AWS; run make offerings REGION=us-west-2 before the first up" in text


def test_changes_tell_types_and_zones_that_came_and_went() -> None:
    old = of({"a.old": offer(), "b.less": offer(), "c.more": offer(zones=("us-west-2a",)), "d.same": offer()})
    new = of({"b.less": offer(zones=("us-west-2b",)), "c.more": offer(vcpus=8), "d.same": offer(), "e.new": offer()})
    want = offerings.Changes(
        added=("e.new",),
        removed=("a.old",),
        zones_lost={"b.less": ("us-west-2a",)},
        zones_gained={"c.more": ("us-west-2b",)},
        altered=("c.more",),
    )
    assert offerings.compare(old, new) == want
    assert not offerings.compare(new, new)
    assert offerings.compare(None, new).added == tuple(new.types)


@pytest.mark.usefixtures("few_types")
def test_the_command_writes_the_file_and_then_says_what_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with moto.mock_aws():
        assert offerings.main(["us-west-2", "--directory", str(tmp_path)]) == 0
        own = tmp_path / ACCOUNT
        first = components.regions.offerings.load("us-west-2", tmp_path, account=ACCOUNT)
        assert first.types.keys() == {"c5.18xlarge", "m7g.large", "p3dn.24xlarge"}
        assert first.types["p3dn.24xlarge"].gpu_name == "V100"
        assert "left out, no Linux nodes (1): mac2.metal" in capsys.readouterr().out
        everywhere = tuple(first.zones)
        types = {"p3dn.24xlarge": offer(zones=everywhere), "m7g.large": first.types["m7g.large"], "z9.old": offer()}
        offerings.write(own / "us-west-2.yaml", offerings.render(of(types, zones=first.zones)))
        assert offerings.main(["us-west-2", "--directory", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    lost = ", ".join(zone for zone in everywhere if zone not in first.types["p3dn.24xlarge"].zones)
    assert lost
    assert "added (1): c5.18xlarge" in told
    assert "z9.old is no longer offered in any zone" in told
    assert f"p3dn.24xlarge is no longer offered in {lost}" in told
    assert components.regions.offerings.load("us-west-2", own) == first
    assert [each.name for each in own.iterdir()] == ["us-west-2.yaml"]


@pytest.mark.usefixtures("few_types")
def test_example_data_is_marked_and_has_the_retired_gpu_types_in_two_zones(tmp_path: Path) -> None:
    with moto.mock_aws():
        assert offerings.main(["us-west-2", "--directory", str(tmp_path), "--example"]) == 0
        assert offerings.main(["eu-west-1", "--directory", str(tmp_path)]) == 0
    example = components.regions.offerings.load("us-west-2", tmp_path)
    assert example.example
    assert example.types["p3.8xlarge"].zones == ("us-west-2a", "us-west-2b")
    real = components.regions.offerings.load("eu-west-1", tmp_path / ACCOUNT)
    assert not real.example
    assert "p3.8xlarge" not in real.types


def test_a_file_that_was_broken_is_replaced(tmp_path: Path, client: "EC2Client") -> None:
    (tmp_path / "us-west-2.yaml").write_text("[")
    with answers(client, [zone("us-west-2a")], [[offered("m7i.large", "us-west-2a")]], [described("m7i.large")]):
        fetched = offerings.fetch(client, "us-west-2")
    offerings.write(tmp_path / "us-west-2.yaml", offerings.render(fetched.offerings))
    assert list(components.regions.offerings.load("us-west-2", tmp_path).types) == ["m7i.large"]


@pytest.mark.parametrize(
    ("region", "want"),
    [("eu-west-11", "did you mean eu-west-1"), ("narnia", "see `aws ec2 describe-regions")],
)
def test_an_unknown_region_is_refused_with_a_hint(
    region: str, want: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert offerings.main([region, "--directory", str(tmp_path)]) == 1
    told = capsys.readouterr().err
    assert want in told
    assert f"the offerings of {region} are as they were" in told
    assert not list(tmp_path.iterdir())


def test_missing_credentials_are_named_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    assert offerings.main(["eu-west-1", "--directory", str(tmp_path)]) == 1
    assert "there are no AWS credentials: log in (`aws sso login`) or set AWS_PROFILE" in capsys.readouterr().err


def test_a_refusal_of_ec2_names_the_permissions_it_takes(client: "EC2Client") -> None:
    with stub.Stubber(client) as stubber:
        stubber.add_client_error("describe_availability_zones", "UnauthorizedOperation")
        with pytest.raises(offerings.RefreshError, match="the caller needs ec2:DescribeAvailabilityZones"):
            offerings.fetch(client, "us-west-2")


@pytest.mark.real
def test_the_command_asks_over_the_wire(tmp_path: Path) -> None:
    server = moto.server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        subprocess.run(
            [sys.executable, "-m", "tools.offerings", "eu-west-1", "--directory", str(tmp_path), "--example"],
            check=True,
            cwd=ROOT,
            env={**os.environ, "AWS_ENDPOINT_URL": f"http://{host}:{port}"},
        )
    finally:
        server.stop()
    found = components.regions.offerings.load("eu-west-1", tmp_path)
    assert found.example
    assert len(found.types) > 500
