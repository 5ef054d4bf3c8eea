"""Internet gateways: one network at a time, and a deletion that starts from where the gateway really is."""

from tests.tools.engine import builders
from tests.tools.engine.providers.aws import fakes
from tools.engine.providers.aws import networks


def aws(*attached: str) -> fakes.FakeCloud:
    gateway = {"InternetGatewayId": "id", "Attachments": [{"VpcId": network} for network in attached]}
    return fakes.FakeCloud({"describe_internet_gateways": {"InternetGateways": [gateway]}})


def test_a_gateway_moves_to_another_network() -> None:
    cloud = aws("vpc-1")
    networks.update(cloud, builders.update(networks.GATEWAY, {"vpcId": "vpc-1"}, {"vpcId": "vpc-2"}))
    want = [
        ("detach_internet_gateway", {"InternetGatewayId": "id", "VpcId": "vpc-1"}),
        ("attach_internet_gateway", {"InternetGatewayId": "id", "VpcId": "vpc-2"}),
    ]
    assert cloud.writes == want


def test_a_gateway_is_deleted_from_where_it_is() -> None:
    cloud = aws("vpc-1")
    networks.delete(cloud, builders.delete(networks.GATEWAY, {"vpcId": "vpc-2"}))
    want = [
        ("detach_internet_gateway", {"InternetGatewayId": "id", "VpcId": "vpc-1"}),
        ("delete_internet_gateway", {"InternetGatewayId": "id"}),
    ]
    assert cloud.writes == want


def test_a_gateway_that_is_attached_nowhere_is_deleted() -> None:
    cloud = aws()
    networks.delete(cloud, builders.delete(networks.GATEWAY, {"vpcId": "vpc-1"}))
    assert cloud.writes == [("delete_internet_gateway", {"InternetGatewayId": "id"})]
