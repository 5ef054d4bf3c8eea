"""The index of workers says at any time what counting all pods afresh would say."""

from hypothesis import given
from hypothesis import strategies as st

from autoscaler.kube import objects, store
from autoscaler.workers import worker_index
from tests.autoscaler.workers.workers import worker

states = st.fixed_dictionaries(
    {
        "phase": st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "Unknown"]),
        "terminating": st.booleans(),
        "held": st.booleans(),
        "trouble": st.sampled_from(["", "ErrImagePull", "ContainerCreating"]),
        "bound_ago": st.sampled_from([None, 10.0]),
        "template": st.sampled_from(["", "old", "new"]),
        "pool_uid": st.sampled_from(["a", "b"]),
    }
)


@given(st.lists(st.tuples(st.sampled_from("vwxyz"), st.none() | states), max_size=40))
def test_the_index_is_what_all_pods_added_afresh_give(history: list[tuple[str, dict[str, object] | None]]) -> None:
    table: store.Table[objects.Pod] = store.Table()
    index = worker_index.index(table)
    for version, (name, state) in enumerate(history, start=1):
        if state is None:
            table.gone(worker(name, resource_version=version).meta)
        else:
            table.seen(worker(name, resource_version=version, **state))  # type: ignore[arg-type]
        assert index.as_dict() == index.recomputed()


def test_each_worker_stands_where_decisions_look_for_it() -> None:
    table: store.Table[objects.Pod] = store.Table()
    index = worker_index.index(table)
    table.seen(worker("starting", phase="Pending", bound_ago=5, trouble="ErrImagePull", pool_uid="a"))
    table.seen(worker("leaving", phase="Pending", terminating=True, resource_version=2, pool_uid="a"))
    found = index.get(worker_index.PoolId("team", "a"))
    assert found is not None
    assert (set(found.unstarted), set(found.bound), set(found.stuck)) == ({"starting"}, {"starting"}, {"starting"})
    assert (set(found.hanging), set(found.held), len(found)) == ({"leaving"}, {"leaving", "starting"}, 2)
