"""Without the engine, a stack's objects are the same as with it, and a cluster takes them in their order."""

import pytest

from autoscaler.api import keys
from autoscaler.api.manifests import Manifest
from components.objects import declarations
from tests.components import configs
from tests.components.objects import test_custom_resources


def objects(**fields: object) -> list[Manifest]:
    loaded = configs.of_cluster(configs.cluster(**fields))
    config = loaded.stack.config.clusters["bench"]
    return list(declarations.objects(config, loaded.stack.region, loaded.grids["bench"]))


def said(metadata: Manifest) -> tuple[object, ...]:
    """Return what an object's metadata must say beside its name."""
    return metadata.get("namespace"), (metadata.get("labels") or {}).get(keys.MACHINE_GROUP)


@pytest.mark.accept("M8", part="a Machine of a stack has its group label, also without the engine")
def test_they_are_those_that_the_engine_is_given() -> None:
    made = test_custom_resources.by_kind(test_custom_resources.declare())
    want = {key: (said(one.inputs["metadata"]), one.inputs["spec"]) for key, one in made.items()}
    found = [each for each in objects(**test_custom_resources.OBJECTS) if each["kind"] != "Namespace"]
    assert len(found) == len(want)
    assert {(each["kind"], each["metadata"]["name"]): (said(each["metadata"]), each["spec"]) for each in found} == want


def test_namespaces_come_first_and_say_their_scope() -> None:
    first, second, *rest = objects(**test_custom_resources.OBJECTS)
    assert [each["metadata"]["name"] for each in (first, second)] == ["lab", "lab-2"]
    assert first["metadata"]["labels"][keys.SCOPE] == "research"
    assert "Namespace" not in {each["kind"] for each in rest}


def test_a_pool_that_is_not_for_all_says_whose_it_is() -> None:
    pools = {"services": configs.SERVICES, "own": configs.pool(instanceWide=False), "open": configs.pool()}
    scopes = {"lab": {"namespaces": ["lab"], "pools": [{"name": "own"}, {"name": "open"}]}}
    found = {each["metadata"]["name"]: each["metadata"]["labels"] for each in objects(nodePools=pools, scopes=scopes)}
    assert found["own"][keys.SCOPE] == "lab"
    assert keys.SCOPE not in found["open"]


def test_an_account_called_aws_that_is_declared_stands_once() -> None:
    want = {"provider": "aws", "region": "us-east-1", "roleArn": "arn:aws:iam::123456789012:role/other"}
    found = objects(providerAccounts={"aws": want})
    assert [each["spec"] for each in found if each["kind"] == "ProviderAccount"] == [want]
