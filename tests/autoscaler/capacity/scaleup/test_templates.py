"""What a node will be, before there is one: its labels, and the ports that daemons use there."""

import pytest

from autoscaler.capacity.scaleup import templates
from autoscaler.cloud import port as cloud
from tests.autoscaler.capacity import seen


def labels(zone: str = "eu-west-1a", **own: str) -> dict[str, str]:
    node = cloud.NodeTemplate(labels=own)
    made = templates.of(seen.snapshot(), seen.group(zone=zone, kind="m6g.large", node=node))
    assert made is not None
    return dict(made.labels)


def test_a_node_will_have_every_label_that_kubelets_and_the_clouds_controller_set() -> None:
    assert labels(team="ml") == {
        "beta.kubernetes.io/arch": "arm64",
        "beta.kubernetes.io/instance-type": "m6g.large",
        "beta.kubernetes.io/os": "linux",
        "failure-domain.beta.kubernetes.io/region": "eu-west-1",
        "failure-domain.beta.kubernetes.io/zone": "eu-west-1a",
        "kubernetes.io/arch": "arm64",
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": "m6g.large",
        "team": "ml",
        "topology.kubernetes.io/region": "eu-west-1",
        "topology.kubernetes.io/zone": "eu-west-1a",
    }


@pytest.mark.parametrize(
    ("zone", "want"),
    [
        ("us-gov-east-1b", "us-gov-east-1"),
        ("us-west-2-lax-1a", "us-west-2"),
        ("us-east-1-wl1-bos-wlz-1", "us-east-1"),
        ("somewhere", None),
    ],
)
def test_the_region_is_how_the_zones_name_begins(zone: str, want: str | None) -> None:
    assert labels(zone).get("topology.kubernetes.io/region") == want


def test_what_tags_say_holds_before_what_follows_from_others() -> None:
    made = labels(**{"kubernetes.io/os": "windows", "topology.kubernetes.io/region": "mine"})
    assert (made["beta.kubernetes.io/os"], made["failure-domain.beta.kubernetes.io/region"]) == ("windows", "mine")


def test_a_status_need_not_tell_what_follows_from_others() -> None:
    whole = labels()
    told = {key: value for key, value in whole.items() if key not in templates.DERIVED}
    assert len(told) < len(whole)
    assert templates.completed(told) == whole


def test_ports_of_daemons_that_come_to_the_node_are_used_there() -> None:
    ports = [{"hostPort": 9100}, {"hostPort": 53, "protocol": "UDP"}, {"containerPort": 80}]
    here = seen.pod("here", containers=[{"name": "main", "ports": ports}]).shape
    elsewhere = seen.pod(
        "elsewhere", containers=[{"name": "main", "ports": [{"hostPort": 1}]}], nodeSelector={"other": "node"}
    ).shape
    made = templates.of(seen.snapshot(daemons=(here, elsewhere)), seen.group())
    assert made is not None
    assert made.host_ports == {("TCP", 9100), ("UDP", 53)}
