"""A scope's pools by priority where AWS runs short, on real parts."""

import pytest

from autoscaler.api import keys
from tests import builders
from tests.e2e.capacity import conftest
from tests.e2e.capacity.site import Site


@pytest.mark.accept("P10")
def test_a_shortage_in_the_best_pool_goes_on_to_the_next_by_priority(site: Site, start: conftest.Start) -> None:
    names = ("third", "first", "second")
    pools = {name: site.add_pool(name) for name in names}
    zones = {"first": "a", "second": "b", "third": "c"}
    groups = {name: site.add_group(pool, zone=zones[name]) for name, pool in pools.items()}
    priorities = {"first": 10, "second": 0, "third": -10}
    entries = [{"name": pools[name], "priority": priorities[name]} for name in names]
    site.make("scopes", builders.resource("Scope", name=f"scope-{site.id}", pools=entries))
    labels = {"metadata": {"labels": {keys.SCOPE: f"scope-{site.id}"}}}
    site.plane.api.merge(f"/api/v1/namespaces/{site.namespace}", labels)
    start()
    site.wait_known(*groups.values())
    site.add_pod("one")
    site.wait_bound("one")
    assert site.group_of("one") == groups["first"]
    site.asg_rules.orders.withhold(zone=site.zone("a"), instance_type="m5.large")
    site.add_pod("two")
    site.wait_bound("two")
    assert site.group_of("two") == groups["second"]
    assert site.desired() == {groups["first"]: 1, groups["second"]: 1}
