"""Several provider accounts: each pool is scaled with its account's own credentials, which nobody ever sees."""

import base64
import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from autoscaler.api import keys, version
from tests import builders
from tests.e2e import replicas, waiting
from tests.e2e.capacity import conftest, gate
from tests.e2e.capacity.site import Site
from tools.local.components import CREDENTIALS

SET = "SetDesiredCapacity"
OWN = CREDENTIALS["AWS_ACCESS_KEY_ID"]
RED, BLUE, STOLEN = "AKIAREDREDREDREDRED0", "AKIABLUEBLUEBLUEBLUE", "AKIASTOLENSTOLENSTOL"
CUSTOM = f"/apis/{version.GROUP_VERSION}"


def hidden(key: str) -> str:
    """Return the secret that goes with an access key id."""
    return f"{key.lower()}+hidden/of/the/account"


def give_keys(site: Site, account: str, key: str) -> None:
    """Put keys into an account's Secret, in place of those that were there."""
    path = f"/api/v1/namespaces/{site.namespace}/secrets"
    data = {"accessKeyId": key, "secretAccessKey": hidden(key)}
    secret = {"metadata": {"name": account}, "stringData": data}
    if site.plane.api.request("GET", f"{path}/{account}").status == 404:
        site.plane.api.create(path, secret)
    else:
        site.plane.api.merge(f"{path}/{account}", secret)


def add_account(site: Site, name: str, key: str | None = None) -> str:
    """Make an account whose credentials are in a Secret, which is made too if there is a key; return its whole name."""
    account = f"{name}-{site.id}"
    if key is not None:
        give_keys(site, account, key)
    kept = {"secretRef": {"namespace": site.namespace, "name": account}}
    manifest = builders.resource("ProviderAccount", name=account, region=site.plane.region, credentials=kept)
    site.make("provideraccounts", manifest)
    return account


@contextlib.contextmanager
def running(site: Site, directory: Path, door: gate.Gate) -> Iterator[replicas.Replica]:
    with conftest.replica(site, directory, endpoint=door.url) as made:
        yield replicas.ready(made)


def shown(site: Site, runtime: replicas.Replica) -> str:
    """Return all that a person can read who may not read Secrets."""
    api = site.plane.api
    kinds = ("provideraccounts", "instancepools", "instances", "scopes")
    objects = [api.get(f"{CUSTOM}/{kind}") for kind in kinds]
    objects += [api.get(f"/api/v1/{kind}") for kind in ("events", "nodes", "pods", "configmaps")]
    pages = [runtime.get(path)[1] for path in ("/metrics", "/healthz", "/readyz")]
    return "\n".join([runtime.log.read_text(), *pages, *map(json.dumps, objects)])


def ready(site: Site, pool: str) -> dict[str, str]:
    found = site.status(pool).get("conditions", ())
    return next((each for each in found if each["type"] == "Ready"), {})


@pytest.mark.accept("P3")
def test_each_pool_is_scaled_with_its_accounts_own_credentials_and_none_is_ever_shown(
    site: Site, tmp_path: Path
) -> None:
    accounts = {"red": add_account(site, "red", RED), "blue": add_account(site, "blue", BLUE), "own": site.id}
    pools = {name: site.add_pool(name, providerAccount=account) for name, account in accounts.items()}
    groups = {name: site.add_group(pool) for name, pool in pools.items()}
    with gate.opened(site.asg_rules.url, OWN, RED, BLUE) as door, running(site, tmp_path, door) as runtime:
        site.wait_known(*groups.values())
        for name, pool in pools.items():
            site.add_pod(name, nodeSelector={keys.INSTANCE_POOL: pool})
        site.wait_bound()
        assert door.signers(SET) == {groups["red"]: {RED}, groups["blue"]: {BLUE}, groups["own"]: {OWN}}
        readers = set().union(*(door.signers("DescribeAutoScalingGroups").values()))
        assert readers == {RED, BLUE, OWN}
        seen = shown(site, runtime)
    assert groups["red"] in seen
    for key in (RED, BLUE):
        for text in (key, hidden(key), base64.b64encode(hidden(key).encode()).decode()):
            assert text not in seen


@pytest.mark.accept("P3", "P10")
def test_an_account_that_cannot_be_used_says_why_holds_nobody_up_and_is_mended_without_a_restart(
    site: Site, tmp_path: Path
) -> None:
    """Its Secret is missing, then holds a key that AWS refuses, then one that it takes."""
    locked = add_account(site, "locked")
    pools = {"first": site.add_pool("first", providerAccount=locked), "second": site.add_pool("second")}
    groups = {name: site.add_group(pool) for name, pool in pools.items()}
    entries = [{"name": pools["first"], "priority": 10}, {"name": pools["second"], "priority": 1}]
    site.make("scopes", builders.resource("Scope", name=f"scope-{site.id}", pools=entries))
    site.plane.api.merge(
        f"/api/v1/namespaces/{site.namespace}", {"metadata": {"labels": {keys.SCOPE: f"scope-{site.id}"}}}
    )
    with gate.opened(site.asg_rules.url, OWN, RED) as door, running(site, tmp_path, door) as runtime:
        site.wait_known(groups["second"])
        waiting.eventually(lambda: "is not there: create it" in ready(site, pools["first"])["message"])
        site.add_pod("one")
        site.wait_bound("one")
        assert site.group_of("one") == groups["second"], "the next pool of the scope was used"

        give_keys(site, locked, STOLEN)
        waiting.eventually(lambda: STOLEN in door.refused, within_seconds=60)
        waiting.eventually(lambda: "is not there" not in ready(site, pools["first"])["message"])
        assert ready(site, pools["first"])["status"] == "False"

        give_keys(site, locked, RED)
        site.wait_known(groups["first"])
        site.add_pod("two", nodeSelector={keys.INSTANCE_POOL: pools["first"]})
        site.wait_bound("two")
        assert door.signers(SET)[groups["first"]] == {RED}
        seen = shown(site, runtime)
    for key in (RED, STOLEN):
        assert key not in seen
        assert hidden(key) not in seen
