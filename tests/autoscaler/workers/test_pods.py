"""A worker pod is the template, made into a worker, and nothing else of it is touched."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.workers import pods
from tests.autoscaler.workers import workers

POOL = workers.resource()


def template(**spec: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "labels": {"app": "worker", "pod-template-hash": "abc"},
            "annotations": {"team": "x"},
            "creationTimestamp": None,
        },
        "spec": {
            "restartPolicy": "Always",
            "containers": [
                {"name": "worker", "image": "w:1", "env": [{"name": "A", "value": "1"}]},
                {"name": "sidecar", "image": "s:1"},
            ],
            "tolerations": [{"operator": "Exists"}],
            **spec,
        },
    }


def test_a_worker_runs_once_and_belongs_to_its_pool() -> None:
    prototype = pods.make(template(), POOL)
    made = prototype.named("x7f2k")
    assert made["metadata"] == {
        "name": "cloudworkers-x7f2k",
        "namespace": "team",
        "labels": {"app": "worker", "sluice.dev/worker-pool": "cloudworkers"},
        "annotations": {"team": "x", "sluice.dev/template-hash": prototype.template},
        "finalizers": ["sluice.dev/cleanup"],
        "ownerReferences": [
            {
                "apiVersion": "sluice.dev/v1alpha1",
                "kind": "WorkerPool",
                "name": "cloudworkers",
                "uid": "u-pool",
                "controller": True,
                "blockOwnerDeletion": False,
            }
        ],
    }
    assert made["spec"]["restartPolicy"] == "Never"
    assert made["spec"]["tolerations"] == [{"operator": "Exists"}]


def test_only_the_named_container_is_told_its_pool_and_idle_timeout() -> None:
    worker, sidecar = pods.make(template(), POOL).named("x7f2k")["spec"]["containers"]
    assert worker["env"] == [
        {"name": "SLUICE_IDLE_TIMEOUT_MINUTES", "value": "3"},
        {"name": "SLUICE_WORKER_POOL", "value": "cloudworkers"},
        {"name": "A", "value": "1"},  # last, so that it may say $(SLUICE_WORKER_POOL)
    ]
    assert sidecar == {"name": "sidecar", "image": "s:1"}


def test_variables_of_ours_in_the_template_give_way() -> None:
    containers = [{"name": "worker", "env": [{"name": "SLUICE_WORKER_POOL", "value": "other"}]}]
    (worker,) = pods.make(template(containers=containers), POOL).named("x7f2k")["spec"]["containers"]
    assert [one for one in worker["env"] if one["name"] == "SLUICE_WORKER_POOL"] == [
        {"name": "SLUICE_WORKER_POOL", "value": "cloudworkers"}
    ]


@pytest.mark.parametrize(("containers", "want"), [([{"name": "a"}, {"name": "b"}], "it has a, b"), ([], "it has none")])
def test_a_container_that_is_not_there_is_refused_with_those_that_are(containers: list[Any], want: str) -> None:
    with pytest.raises(pods.TemplateError, match=want):
        pods.make(template(containers=containers), POOL).named("x7f2k")


@given(st.dictionaries(st.text(min_size=1, max_size=5), st.integers() | st.text(), max_size=5))
def test_the_template_itself_is_never_changed(more: dict[str, Any]) -> None:
    given_template = template(**{f"x{key}": value for key, value in more.items()})
    before = copy.deepcopy(given_template)
    pods.make(given_template, POOL).named("x7f2k")
    assert given_template == before


def test_a_suffix_of_another_length_is_a_mistake_of_ours() -> None:
    with pytest.raises(ValueError, match="5 characters"):
        pods.name("pool", "abc")
