"""What is left of quotas while queues come and go."""

import pytest

from autoscaler.admission.quota.amounts import FlavorResource
from autoscaler.admission.quota.cache.books import Books
from tests.autoscaler.admission import builders
from tests.autoscaler.admission.builders import cluster_queue, workload

pytestmark = pytest.mark.accept("E11", part="cohorts: what queues lend each other")
CPU = FlavorResource("spot", "cpu")


def test_what_is_given_back_to_a_queue_that_is_gone_is_lent_to_nobody() -> None:
    tables = builders.tables(cluster_queue("a", cohort="all"), cluster_queue("b", cohort="all"))
    tables.workloads.seen(workload("w", count=3, granted=3, cluster_queue="a"))
    books = Books(tables)
    tables.cluster_queues.gone(cluster_queue("a", rv=2).meta)
    tables.workloads.seen(workload("w", count=2, granted=2, cluster_queue="a", rv=2))
    assert books.ledger.free(books.queues["b"], CPU) == 10_000
