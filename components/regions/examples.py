"""What comes with the repository as an example: accounts, offerings and prices that nobody has checked. Pure.

They serve to try things out. A limit of money is not kept by them: `pulumi up` refuses that.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from autoscaler.api.settings.scaling import PriceList
from components.config.autoscaler import NodeScaler
from components.config.base import Problem
from components.config.clusters import Cluster
from components.regions import offerings, prices

LOCAL_ACCOUNT: Final = "123456789012"
"""The account of stack local, which moto plays. No money is spent there."""
_ACCOUNTS: Final = frozenset({LOCAL_ACCOUNT, "111122223333", "444455556666", "555555555555", "777788889999"})
"""Accounts of AWS' own documentation: nobody's."""


def warnings(
    account: str, region: str, offered: offerings.Offerings | None, costs: Mapping[str, PriceList]
) -> Iterator[str]:
    """Name what is an example."""
    if account in _ACCOUNTS and account != LOCAL_ACCOUNT:
        yield f"sluice:accountId {account} is an account of AWS' documentation: put your own"
    if offered is not None and offered.example:
        yield (
            f"{offerings.path(region)} is example data, not checked against AWS: run `make offerings REGION={region}` "
            "and review the difference"
        )
    if any(listed.example and listed.hourly for listed in costs.values()):
        yield (
            f"{prices.path(region)} has example prices, not checked against AWS: run `make prices REGION={region}` "
            "and review the difference"
        )


def money(
    account: str, region: str, clusters: Mapping[str, Cluster], costs: Mapping[str, PriceList]
) -> Iterator[Problem]:
    """Report limits of money that example prices would keep."""
    for key, cluster in clusters.items():
        is_native = cluster.autoscaler.node_scaler is NodeScaler.NATIVE
        if account == LOCAL_ACCOUNT or not is_native or key not in costs or not costs[key].example:
            continue
        for kind, pools in (("nodePools", cluster.node_pools), ("instancePools", cluster.instance_pools)):
            for name, pool in pools.items():
                limit = pool.limits.target_max_cost_per_month
                if limit is not None:
                    path = ("clusters", key, kind, name, "limits", "targetMaxCostPerMonth")
                    message = (
                        f"would be kept by the example prices of {prices.path(region)}: run `make prices "
                        f"REGION={region}` and review the difference, or leave the limit out"
                    )
                    yield Problem(path=path, value=limit, message=message)
