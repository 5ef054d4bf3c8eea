"""Whom a pool of one namespace may ask: by name, by address, and by what the stack grants it."""

import ipaddress

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.api.settings import queue_access
from autoscaler.queues import access, port

PRIVATE = [
    "10.0.0.5",
    "172.16.0.1",
    "172.31.255.254",
    "192.168.1.1",
    "100.64.0.1",
    "100.127.255.254",
    "198.18.0.1",
    "192.0.2.1",
    "fd12::5",
    "fc00::1",
    "fec0::1",
]
PUBLIC = ["52.1.2.3", "100.63.255.255", "100.128.0.1", "172.32.0.1", "11.0.0.1", "2600:1f18::1"]


def of(**grants: dict[str, list[str]]) -> access.Access:
    """Grants as the settings carry them, by namespace."""
    return access.Access(grants=queue_access.QueueAccess.model_validate(grants).root)


def may_ask(host: str, address: str, given: access.Access | None = None, *, namespace: str = "a") -> bool:
    try:
        access.check(access.judge(host, namespace, given or of()), ipaddress.ip_address(address))
    except port.QueueError as error:
        return error.reason is not port.Reason.NOT_ALLOWED
    return True


@pytest.mark.accept("W26")
@pytest.mark.parametrize("address", PRIVATE)
def test_private_addresses_need_a_grant_as_addresses_and_by_a_name(address: str) -> None:
    assert not may_ask(address, address)
    assert not may_ask("queue.example.com", address)


@pytest.mark.accept("W26")
@pytest.mark.parametrize("address", PUBLIC)
def test_public_hosts_need_none(address: str) -> None:
    assert may_ask(address, address)
    assert may_ask("queue.example.com", address)


@given(st.ip_addresses())
def test_what_the_internet_does_not_route_is_not_public(address: access.Address) -> None:
    assert address.is_global or not access.is_public(address)


@pytest.mark.accept("W26", "W23")
@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("web.a.svc", "web.a.svc.cluster.local."),
        ("web.a.svc.", "web.a.svc.cluster.local."),
        ("WEB.A.svc", "web.a.svc.cluster.local."),
        ("web.a.svc.cluster.local", "web.a.svc.cluster.local."),
        ("web-0.web.a.svc", "web-0.web.a.svc.cluster.local."),
        ("web.a", "web.a.svc.cluster.local."),
    ],
)
def test_a_service_of_the_pools_namespace_is_known_by_its_name_and_looked_up_in_full(host: str, name: str) -> None:
    target = access.judge(host, "a", of())
    assert (target.name, target.is_service) == (name, True)
    assert may_ask(host, "10.100.3.4")


@pytest.mark.accept("W26")
@pytest.mark.parametrize(
    "host", ["web.b.svc", "web.b.svc.cluster.local", "WEB.b.SVC.", "web-0.web.b.svc", "a.b.svc", "x.a.b.svc"]
)
def test_services_of_other_namespaces_are_refused_by_name_unless_granted(host: str) -> None:
    with pytest.raises(port.QueueError) as caught:
        access.judge(host, "a", of(c={"namespaces": ["b"]}))
    error = caught.value
    assert error.reason is port.Reason.NOT_ALLOWED
    for said in (
        host.rstrip(".").lower(),
        "namespace b",
        "namespace a",
        "autoscaler.queueAccess: {a: {namespaces: [b]}}",
    ):
        assert said in error.message
    assert may_ask(host, "10.100.3.4", of(a={"namespaces": ["b"]}))


@pytest.mark.accept("W26")
@pytest.mark.parametrize(
    "host",
    [
        "web.a.svc.evil.example",
        "web.a.svc.cluster.local.evil.example",
        "a.svc",
        "svc",
        "web.a.",
        "web.b",
        "10-0-0-1.a.pod.cluster.local",
        "evil.example",
    ],
)
def test_a_name_that_somebody_else_can_answer_for_is_no_service(host: str) -> None:
    assert not access.judge(host, "a", of()).is_service
    assert not may_ask(host, "10.0.0.5")


def test_other_names_are_looked_up_as_they_stand() -> None:
    assert access.judge("web.b", "a", of()).name == "web.b."
    assert access.judge("Queue.Example.com.", "a", of()).name == "queue.example.com."


@pytest.mark.accept("W26")
def test_the_short_name_of_a_granted_namespace_is_a_service_too() -> None:
    granted = of(a={"namespaces": ["monitoring"]})
    assert access.judge("prometheus.monitoring", "a", granted).name == "prometheus.monitoring.svc.cluster.local."
    assert not access.judge("prometheus.monitoring", "b", granted).is_service


def test_the_clusters_own_domain_is_used() -> None:
    here = access.Access(cluster_domain="corp.lan")
    assert access.judge("web.a.svc", "a", here).name == "web.a.svc.corp.lan."
    assert access.judge("web.a.svc.corp.lan", "a", here).is_service
    assert not access.judge("web.a.svc.cluster.local", "a", here).is_service


@pytest.mark.accept("W26")
@pytest.mark.parametrize(
    ("grant", "host", "address", "want"),
    [
        ({"hosts": ["queue.corp.example"]}, "queue.corp.example", "10.0.0.5", True),
        ({"hosts": ["queue.corp.example"]}, "Queue.corp.example.", "fd12::5", True),
        ({"hosts": ["queue.corp.example"]}, "other.corp.example", "10.0.0.5", False),
        ({"hosts": ["*.corp.example"]}, "queue.corp.example", "10.0.0.5", True),
        ({"hosts": ["*.corp.example"]}, "a.b.corp.example", "10.0.0.5", True),
        ({"hosts": ["*.corp.example"]}, "corp.example", "10.0.0.5", False),
        ({"hosts": ["*.corp.example"]}, "evilcorp.example", "10.0.0.5", False),
        ({"cidrs": ["10.0.0.0/24"]}, "10.0.0.5", "10.0.0.5", True),
        ({"cidrs": ["10.0.0.0/24"]}, "queue.example.com", "10.0.0.5", True),
        ({"cidrs": ["10.0.0.0/24"]}, "10.0.1.5", "10.0.1.5", False),
        ({"cidrs": ["fd12::/16"]}, "fd12::5", "fd12::5", True),
        ({"cidrs": ["fd12::/16"]}, "10.0.0.5", "10.0.0.5", False),
        ({"namespaces": ["b"]}, "10.0.0.5", "10.0.0.5", False),
        ({"namespaces": ["b"]}, "queue.corp.example", "10.0.0.5", False),
    ],
)
def test_a_grant_allows_what_it_says_to_its_namespace_alone(
    grant: dict[str, list[str]], host: str, address: str, *, want: bool
) -> None:
    assert may_ask(host, address, of(a=grant)) is want
    assert not may_ask(host, address, of(b=grant))


@pytest.mark.accept("W26")
@pytest.mark.parametrize(
    ("host", "address", "key"),
    [
        ("queue.corp.example", "10.0.0.5", "autoscaler.queueAccess: {a: {hosts: [queue.corp.example]}}"),
        ("10.0.0.5", "10.0.0.5", "autoscaler.queueAccess: {a: {cidrs: [10.0.0.5/32]}}"),
        ("fd12::5", "fd12::5", "autoscaler.queueAccess: {a: {cidrs: [fd12::5/128]}}"),
    ],
)
def test_a_refusal_names_host_and_namespace_and_the_config_that_works(host: str, address: str, key: str) -> None:
    with pytest.raises(port.QueueError) as caught:
        access.check(access.judge(host, "a", of()), ipaddress.ip_address(address))
    assert caught.value.reason is port.Reason.NOT_ALLOWED
    for said in (host, "namespace a", key):
        assert said in caught.value.message


@pytest.mark.accept("W26")
def test_a_service_that_is_another_name_for_a_host_elsewhere_is_not_followed() -> None:
    own = access.judge("web.a.svc", "a", of())
    access.check_canonical(own, "web.a.svc.cluster.local")
    with pytest.raises(port.QueueError, match="ExternalName") as caught:
        access.check_canonical(own, "db.b.svc.cluster.local")
    assert caught.value.reason is port.Reason.NOT_ALLOWED
    access.check_canonical(access.judge("www.example.com", "a", of()), "edge.cdn.example")


@pytest.mark.parametrize(
    ("grant", "want"),
    [
        ({"hosts": ["web"]}, "full host name"),
        ({"hosts": ["Queue.corp.example"]}, "lower case"),
        ({"hosts": ["http://queue.corp.example"]}, "full host name"),
        ({"hosts": ["*"]}, "full host name"),
        ({"hosts": ["10.0.0.5"]}, "belongs into cidrs"),
        ({"hosts": ["web.b.svc"]}, "belongs into namespaces"),
        ({"hosts": ["*.b.svc.cluster.local"]}, "belongs into namespaces"),
        ({"cidrs": ["10.0.0.5"]}, "length is missing"),
        ({"cidrs": ["10.0.0.5/24"]}, "block of addresses"),
        ({"cidrs": ["169.254.0.0/16"]}, "no worker pool may ask"),
        ({"cidrs": ["127.0.0.0/8"]}, "no worker pool may ask"),
        ({"namespaces": ["B"]}, "pattern"),
    ],
)
def test_a_grant_that_makes_no_sense_is_refused(grant: dict[str, list[str]], want: str) -> None:
    with pytest.raises(pydantic.ValidationError, match=want):
        of(a=grant)


def test_grants_travel_as_json() -> None:
    given = queue_access.QueueAccess.model_validate({"a": {"cidrs": ["10.0.0.0/24"]}, "b": {"namespaces": ["m"]}})
    assert given.to_json() == '{"a":{"cidrs":["10.0.0.0/24"]},"b":{"namespaces":["m"]}}'
    assert queue_access.QueueAccess.model_validate_json(given.to_json()) == given
