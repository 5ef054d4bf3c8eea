"""The API server serves the runtime whatever others ask of it."""

from typing import Any

from tests.components.runtime import test_runtime


def found(**autoscaler: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    world = test_runtime.run(test_runtime.config(**autoscaler))
    level = world.one("flowcontrol.apiserver.k8s.io/v1:PriorityLevelConfiguration")
    schema = world.one("flowcontrol.apiserver.k8s.io/v1:FlowSchema")
    assert schema.waits_for(level)
    assert world.one(":Deployment", "r").waits_for(schema)
    return dict(level.inputs), dict(schema.inputs)


def test_the_runtimes_account_has_a_priority_level_of_its_own() -> None:
    level, schema = found()
    assert schema["spec"]["priorityLevelConfiguration"] == {"name": level["metadata"]["name"]}
    (rule,) = schema["spec"]["rules"]
    account = {"kind": "ServiceAccount", "serviceAccount": {"namespace": "sluice-system", "name": "sluice"}}
    assert rule["subjects"] == [account]
    assert rule["resourceRules"] == [
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"], "clusterScope": True, "namespaces": ["*"]}
    ]
    assert rule["nonResourceRules"] == [{"nonResourceURLs": ["*"], "verbs": ["*"]}]
    assert level["spec"]["type"] == "Limited"
    assert level["spec"]["limited"]["limitResponse"]["type"] == "Queue"
    assert level["spec"]["limited"]["nominalConcurrencyShares"] > 0


def test_it_is_asked_before_kubernetes_own_schemas_for_service_accounts() -> None:
    of_kube_system, of_all_accounts = 900, 9000
    _, schema = found()
    assert schema["spec"]["matchingPrecedence"] < min(of_kube_system, of_all_accounts)


def test_another_account_and_name_are_followed() -> None:
    level, schema = found(fullnameOverride="big", serviceAccount={"name": "other"})
    assert (level["metadata"]["name"], schema["metadata"]["name"]) == ("big", "big")
    (rule,) = schema["spec"]["rules"]
    assert rule["subjects"][0]["serviceAccount"]["name"] == "other"


def test_some_of_it_is_lent_while_the_runtime_is_idle() -> None:
    level, _ = found()
    assert 0 < level["spec"]["limited"]["lendablePercent"] < 100
