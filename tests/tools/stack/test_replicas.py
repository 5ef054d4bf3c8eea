"""The runtime's Deployment is told from its neighbours', whatever it is called."""

from typing import Any

import pytest

from tools.stack import replicas


def deployment(name: str, **container: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"template": {"spec": {"containers": [container]}}}}


@pytest.mark.parametrize(
    ("found", "want"),
    [
        (deployment("sluice", env=[{"name": "SLUICE_NAMESPACE", "value": "x"}]), True),
        (deployment("other-name", env=[{"name": "A"}, {"name": "SLUICE_NAMESPACE"}]), True),
        (deployment("nfd-master", env=[{"name": "NODE_NAME"}]), False),
        (deployment("nfd-gc"), False),
    ],
)
def test_the_runtime_is_known_by_its_own_variable(found: dict[str, Any], want: bool) -> None:  # noqa: FBT001
    assert replicas.is_runtime(found) is want
