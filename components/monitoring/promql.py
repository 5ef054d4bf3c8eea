"""Parts of queries in PromQL that panels and alert rules share, and whose runtime a query is about. Pure.

All numbers are of one runtime, told apart by its namespace and cluster. `namespace` is where it runs, so the namespace
of a worker pool is `pool_namespace`, whichever way Prometheus settles two labels of one name. The runtime itself says
its cluster, in a label that no scrape sets.
"""

from dataclasses import dataclass
from typing import Final

from autoscaler.api import names

OF_POOL: Final = "by (pool_namespace, pool)"
OF_BUDGET: Final = "by (pool, scope, kind)"
OF_QUEUE: Final = "by (cluster_queue)"
OF_QUOTA: Final = "by (cluster_queue, flavor, resource)"
OF_MACHINES: Final = "by (group, type)"
QUOTA_USED: Final = f"max {OF_QUOTA} (sluice_admission_usage{{$of}}) / max {OF_QUOTA} (sluice_admission_quota{{$of}})"
"""Without quota of its own it is infinite where a queue borrows, and no number where it uses nothing."""
ADMITTED: Final = f"sum {OF_QUEUE} (increase(sluice_admission_admissions_total{{$of}}[1h]))"


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """Whose numbers are asked for, and who is asked what to do about them."""

    cluster: str
    namespace: str
    deployment: str = "sluice"

    def of(self, query: str) -> str:
        """Put the labels of the runtime where a query says $of."""
        return query.replace("$of", f'namespace="{self.namespace}",{names.CLUSTER_LABEL}="{self.cluster}"')

    def run(self, text: str) -> str:
        """Put how to run the runtime's own commands, from anywhere, where a text says $run."""
        command = f"kubectl --namespace {self.namespace} exec deploy/{self.deployment} -- python -m autoscaler"
        return text.replace("$run", command).replace("$namespace", self.namespace)
