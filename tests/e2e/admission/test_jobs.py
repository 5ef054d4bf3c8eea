"""Batch Jobs in a queue, from their creation to their end: the real Job controller, scheduler and policies."""

import pytest

from tests.e2e.admission.ground import Ground, gates_of


@pytest.mark.accept("E7", part="a Job waits suspended, is admitted within quota, and its gates open")
@pytest.mark.accept("E16", part="a Job and the next one, replayed at every resourceVersion")
def test_a_job_waits_until_the_quota_that_another_uses_is_free(site: Ground) -> None:
    queue = site.add_queue("2")
    first = site.make_job("first", queue, pods=2)
    assert first["spec"]["suspend"]
    site.wait_for_grant(first, main=2)
    running = site.wait_for_running(first, 2)
    assert not any(gates_of(pod) for pod in running)

    second = site.make_job("second", queue, run_for="1s")
    later = site.make_job("later", site.add_queue("1"))
    site.wait_for_grant(later, main=1)  # so the second was looked at
    assert site.granted(second) == {}
    assert site.get("jobs", "second")["spec"]["suspend"]
    assert site.pods(second) == []

    for pod in running:
        site.end(pod)
    site.wait_for_condition(first, "Finished", status="True")
    assert site.granted(first) == {}
    site.wait_for_condition(second, "Finished", status="True")
    assert {pod["status"]["phase"] for pod in site.pods(second)} == {"Succeeded"}
