"""Parts of queries in PromQL that panels and alert rules share, and whose runtime a query is about. Pure.

All numbers are of one runtime, told apart by its namespace: `namespace` is where it runs, so the namespace of a worker
pool is `pool_namespace`, whichever way Prometheus settles two labels of one name.
"""

from typing import Final

OF_POOL: Final = "by (pool_namespace, pool)"
OF_BUDGET: Final = "by (pool, scope, kind)"
OF_QUEUE: Final = "by (cluster_queue)"
OF_QUOTA: Final = "by (cluster_queue, flavor, resource)"
OF_MACHINES: Final = "by (group, type)"
QUOTA_USED: Final = f"max {OF_QUOTA} (sluice_admission_usage{{$of}}) / max {OF_QUOTA} (sluice_admission_quota{{$of}})"
"""Without quota of its own it is infinite where a queue borrows, and no number where it uses nothing."""
ADMITTED: Final = f"sum {OF_QUEUE} (increase(sluice_admission_admissions_total{{$of}}[1h]))"


def of(query: str, namespace: str) -> str:
    """Put the labels of the runtime in this namespace where a query says $of."""
    return query.replace("$of", f'namespace="{namespace}"')
