"""What EC2 costs in a region, and which pools of a cluster cannot do without knowing it.

It is data, kept in the repository and reviewed like code, as offerings are. Only `load` reads a file. Nothing here may
ask AWS: `python -m tools.prices` does that and writes the files.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from autoscaler.api.resources.pools import CapacityType, InstanceTypeName
from autoscaler.api.settings.scaling import Currency, Expander, Price, PriceList
from components.config.autoscaler import NodeScaler
from components.config.base import Problem
from components.config.clusters import Cluster
from components.regions import region_files

DIRECTORY: Final = Path("stacks/prices")


class PricesError(Exception):
    """The prices of a region cannot be used; the message names the file and what to do."""


class RegionPrices(region_files.Strict):
    """What EC2 costs an hour in one region."""

    region: region_files.Region
    example: bool = False
    """True for numbers that nobody has checked against AWS."""
    currency: Currency
    hourly: dict[InstanceTypeName, dict[CapacityType, Price]]
    """By instance type and kind of capacity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pool:
    """A pool, as far as prices are about it."""

    field: str
    name: str
    types: tuple[str, ...]
    capacity: CapacityType
    limit: int | None


def path(region: str, directory: Path = DIRECTORY) -> Path:
    """Return where a region's prices are kept."""
    return directory / f"{region}.yaml"


def load(region: str, directory: Path = DIRECTORY) -> RegionPrices | None:
    """Read a region's prices; None where nobody has written any. Raise PricesError if they cannot be used."""
    file = path(region, directory)
    try:
        read = region_files.parse(file.read_text(encoding="utf-8"), RegionPrices)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise PricesError(f"{file} cannot be used: {error}: {_refresh(region)}") from error
    if read.region != region:
        raise PricesError(f"{file} holds the prices of {read.region}, not of {region}: {_refresh(region)}")
    return read


def of_cluster(cluster: Cluster, known: RegionPrices | None) -> PriceList:
    """Return the prices of what a cluster's pools may start: the runtime needs no others."""
    if known is None:
        return PriceList()
    hourly: dict[str, dict[CapacityType, Price]] = {}
    for pool in _pools(cluster):
        for kind in pool.types:
            if (price := _price(known, kind, pool.capacity)) is not None:
                hourly.setdefault(kind, {})[pool.capacity] = price
    return PriceList(currency=known.currency, example=known.example, hourly=dict(sorted(hourly.items())))


def problems(cluster: Cluster, region: str, known: RegionPrices | None) -> Iterator[Problem]:
    """Report each type without a price that a limit of money, or the choice by price, needs to know."""
    if cluster.autoscaler.node_scaler is not NodeScaler.NATIVE:
        return  # the upstream cluster-autoscaler reckons with no money
    by_price = Expander.PRICE in cluster.autoscaler.expanders
    for pool in _pools(cluster):
        if pool.limit is None and not by_price:
            continue
        why = "autoscaler.expanders has price" if pool.limit is None else f"targetMaxCostPerMonth is {pool.limit}"
        for index, kind in enumerate(pool.types):
            if _price(known, kind, pool.capacity) is None:
                message = f"has no {pool.capacity} price in {path(region)}, and {why}: {_refresh(region)}, or add it"
                yield Problem(path=_place(pool, index), value=kind, message=message)


def _price(known: RegionPrices | None, kind: str, capacity: CapacityType) -> Price | None:
    return None if known is None else known.hourly.get(kind, {}).get(capacity)


def _pools(cluster: Cluster) -> Iterator[_Pool]:
    for name, pool in cluster.node_pools.items():
        yield _Pool(
            field="nodePools",
            name=name,
            types=pool.types,
            capacity=pool.capacity_type,
            limit=pool.limits.target_max_cost_per_month,
        )
    for name, declared in cluster.instance_pools.items():
        yield _Pool(
            field="instancePools",
            name=name,
            types=declared.specifications.instance_types,
            capacity=declared.specifications.capacity_type,
            limit=declared.limits.target_max_cost_per_month,
        )


def _place(pool: _Pool, index: int) -> tuple[str | int, ...]:
    inside = ("instanceTypes",) if pool.field == "nodePools" else ("specifications", "instanceTypes")
    return (pool.field, pool.name, *inside, index)


def _refresh(region: str) -> str:
    return f"run `make prices REGION={region}` and review the difference"
