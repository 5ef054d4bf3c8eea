"""Where a pool may ask, judged by the address that is connected to, however it is written."""

import ipaddress

import pytest
import yarl
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.queues import access, endpoints, port

API = endpoints.Policy(api_servers=(endpoints.Server(host="10.100.0.1", port=443),))
DEVELOPMENT = endpoints.Policy(
    api_servers=(endpoints.Server(host="127.0.0.1", port=6443),),
    allow_loopback=True,
)
REFUSED = [
    "127.0.0.1",
    "127.8.8.8",
    "169.254.169.254",
    "169.254.170.23",
    "0.0.0.0",  # noqa: S104 - an address to refuse
    "0.1.2.3",
    "224.0.0.1",
    "255.255.255.255",
    "240.0.0.1",
    "10.100.0.1",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
]


def is_refused(address: str, policy: endpoints.Policy = API, number: int = 443) -> bool:
    try:
        endpoints.check_address(address, number, policy)
    except port.QueueError as error:
        return error.reason is port.Reason.ENDPOINT_REFUSED
    return False


@pytest.mark.accept("W22")
@pytest.mark.parametrize("address", REFUSED)
def test_an_address_is_refused_in_every_form(address: str) -> None:
    inner = ipaddress.IPv4Address(address)
    sixtofour = ipaddress.IPv6Address((0x2002 << 112) | (int(inner) << 80))
    forms = [address, f"::ffff:{address}", f"64:ff9b::{address}", f"64:ff9b:1::{address}", str(sixtofour)]
    forms.append(f"::ffff:0:{address}")
    if int(inner) > 0xFFFF:
        forms.append(f"::{address}")
    assert {form: is_refused(form) for form in forms} == dict.fromkeys(forms, True)


@pytest.mark.accept("W22")
@pytest.mark.parametrize(
    "address", ["::1", "::", "fe80::1", "fe80::1%eth0", "ff02::1", "fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254"]
)
def test_addresses_of_ipv6_are_refused(address: str) -> None:
    assert is_refused(address)


@pytest.mark.parametrize("address", ["10.0.0.5", "172.20.1.1", "192.168.1.1", "52.1.2.3", "fd12::5", "2600:1f18::1"])
def test_services_pods_and_the_internet_may_be_asked(address: str) -> None:
    assert not is_refused(address)


@given(st.ip_addresses(v=4))
def test_writing_an_address_as_ipv6_changes_nothing(address: ipaddress.IPv4Address) -> None:
    assert is_refused(str(address)) == is_refused(f"::ffff:{address}")


@given(st.ip_addresses())
def test_what_the_standard_library_calls_special_is_refused(address: access.Address) -> None:
    special = address.is_loopback or address.is_link_local or address.is_multicast or address.is_unspecified
    assert is_refused(str(address)) or not special


def test_loopback_needs_the_development_switch_and_never_reaches_the_api_server() -> None:
    assert not is_refused("127.0.0.1", DEVELOPMENT, number=8000)
    assert not is_refused("::1", DEVELOPMENT, number=8000)
    assert is_refused("127.0.0.1", DEVELOPMENT, number=6443)
    assert is_refused("::1", DEVELOPMENT, number=6443)
    assert is_refused("169.254.169.254", DEVELOPMENT)


def test_addresses_of_the_api_servers_name_are_refused() -> None:
    known = frozenset({ipaddress.IPv4Address("52.1.2.3")})
    with pytest.raises(port.QueueError, match="API server"):
        endpoints.check_address("::ffff:52.1.2.3", 443, endpoints.Policy(), api_addresses=known)


@pytest.mark.accept("W22")
@pytest.mark.parametrize(
    "host",
    [
        "kubernetes.default",
        "kubernetes.default.svc",
        "KUBERNETES.default.svc.cluster.local.",
        "api.example.com",
        "api.example.com.",
    ],
)
def test_the_api_servers_names_are_refused(host: str) -> None:
    policy = endpoints.Policy(api_servers=(endpoints.Server(host="API.example.com", port=443),))
    with pytest.raises(port.QueueError, match="API server"):
        endpoints.check_host(yarl.URL(f"https://{host}/"), policy)


@pytest.mark.accept("W22")
def test_kubernetes_in_namespace_default_is_the_api_server() -> None:
    with pytest.raises(port.QueueError, match="API server"):
        endpoints.check_host(endpoints.parse("https://kubernetes/api", namespace="default"), endpoints.Policy())
    endpoints.check_host(endpoints.parse("https://kubernetes/api", namespace="jobs"), endpoints.Policy())


@pytest.mark.accept("W23")
@pytest.mark.parametrize(
    ("endpoint", "want"),
    [
        ("https://web-server/api/job/peek_queue", "https://web-server.jobs.svc/api/job/peek_queue"),
        ("http://web:8080/x?y=z#frag", "http://web.jobs.svc:8080/x?y=z"),
        ("http://WEB/", "http://web.jobs.svc/"),
        ("http://web.jobs:4433/x", "http://web.jobs.svc:4433/x"),
        ("http://web.jobs./x", "http://web.jobs./x"),
        ("http://web.jobs.svc/x", "http://web.jobs.svc/x"),
        ("http://web.other/x", "http://web.other/x"),
        ("http://web./x", "http://web./x"),
        ("http://10.0.0.1/x", "http://10.0.0.1/x"),
        ("http://[fd12::5]:81/x", "http://[fd12::5]:81/x"),
        ("http://2130706433/x", "http://2130706433.jobs.svc/x"),
    ],
)
def test_the_short_names_of_a_service_are_in_the_pools_namespace(endpoint: str, want: str) -> None:
    assert str(endpoints.parse(endpoint, namespace="jobs")) == want


@pytest.mark.parametrize(
    "endpoint", ["ftp://a.b/c", "file:///etc/passwd", "/a", "http://", "http://a:99999/", "http://[::1/"]
)
def test_what_is_no_web_address_is_refused(endpoint: str) -> None:
    with pytest.raises(port.QueueError, match="not a URL"):
        endpoints.parse(endpoint, namespace="jobs")


def test_a_password_in_the_endpoint_is_refused_and_not_shown() -> None:
    with pytest.raises(port.QueueError, match="Secret") as caught:
        endpoints.parse("http://me:hunter2@a.b/c", namespace="jobs")
    assert "hunter2" not in str(caught.value)


@pytest.mark.accept("W22")
@pytest.mark.parametrize(
    ("start", "location", "want"),
    [
        ("http://a.b/c", "/d", "http://a.b/d"),
        ("http://a.b/c", "http://A.B:80/d", "http://a.b/d"),
        ("http://a.b/c/d", "e", "http://a.b/c/e"),
        ("http://a.b/c", "https://a.b/c", "https://a.b/c"),
        ("https://a.b/c", "http://a.b/c", None),
        ("http://a.b/c", "http://x.y/c", None),
        ("http://a.b/c", "//x.y/c", None),
        ("http://a.b/c", "http://a.b:81/c", None),
        ("http://a.b:81/c", "https://a.b/c", None),
        ("http://a.b/c", "http://me@a.b/c", None),
        ("http://a.b/c", "ftp://a.b/c", None),
        ("http://a.b/c", "http://[::1/", None),
    ],
)
def test_redirects_stay_on_the_same_server(start: str, location: str, want: str | None) -> None:
    try:
        got: str | port.Reason = str(endpoints.redirected(yarl.URL(start), location))
    except port.QueueError as error:
        got = error.reason
    assert got == (want or port.Reason.REDIRECTED)


def test_a_server_is_read_from_its_url() -> None:
    assert endpoints.Server.of("https://10.0.0.1") == endpoints.Server(host="10.0.0.1", port=443)
    assert endpoints.Server.of("https://[fd12::5]:6443/x") == endpoints.Server(host="fd12::5", port=6443)


def test_messages_do_not_show_the_query() -> None:
    assert endpoints.shown(yarl.URL("http://a.b/c?token=x")) == "http://a.b/c"
