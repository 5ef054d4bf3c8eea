"""How the API server treats what the runtime asks of it: in a priority level of its own. Pure.

A client that floods the API server is held back in the level that it shares with others. Without a level of its own the
runtime would share one with every ServiceAccount of the cluster, and would wait with the flood.
"""

from typing import Final

from autoscaler.api.manifests import Manifest
from components.config.autoscaler import Autoscaler

PRECEDENCE: Final = 800
"""The lowest number wins; Kubernetes' own schemas for ServiceAccounts have 900 and more."""
SHARES: Final = 30
"""Of what the API server can serve at once; Kubernetes' own levels have 245 in all."""
LENDABLE_PERCENT: Final = 50
"""What others may use of it while the runtime is idle."""


def priority_level() -> Manifest:
    """Write the priority level's spec."""
    return {
        "type": "Limited",
        "limited": {
            "nominalConcurrencyShares": SHARES,
            "lendablePercent": LENDABLE_PERCENT,
            "limitResponse": {"type": "Queue", "queuing": {"queues": 16, "handSize": 4, "queueLengthLimit": 100}},
        },
    }


def flow_schema(autoscaler: Autoscaler) -> Manifest:
    """Write the spec of the schema that puts all requests of the runtime's account there."""
    account = {"namespace": autoscaler.namespace, "name": autoscaler.service_account_name}
    everything = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"], "clusterScope": True, "namespaces": ["*"]}
    return {
        "matchingPrecedence": PRECEDENCE,
        "priorityLevelConfiguration": {"name": autoscaler.name},
        "rules": [
            {
                "subjects": [{"kind": "ServiceAccount", "serviceAccount": account}],
                "resourceRules": [everything],
                "nonResourceRules": [{"nonResourceURLs": ["*"], "verbs": ["*"]}],
            }
        ],
    }
