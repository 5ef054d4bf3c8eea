"""From raw config to everything the components need, or to one error that lists all that is wrong."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from autoscaler.api.settings.scaling import PriceList
from components.config import problems, reading
from components.config.autoscaler import NodeScaler
from components.config.base import Problem
from components.config.clusters import Cluster
from components.config.reading import Raw, Stack
from components.config.stack import StackConfig
from components.config.validation import scaler_checks
from components.networking import subnets
from components.nodes import grid, image_recipe, pool_images, type_choice
from components.objects import flavor_coverage
from components.regions import examples, offerings, prices

OFFERINGS: Final = Path(__file__).parent.parent / offerings.DIRECTORY
PRICES: Final = Path(__file__).parent.parent / prices.DIRECTORY


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A stack whose config is right, with the node groups of its clusters."""

    stack: Stack
    grids: Mapping[str, grid.Grid]
    """By cluster key."""
    zones: Mapping[str, str]
    """The region's zones with their ids; empty where no cluster has a node pool."""
    prices: Mapping[str, PriceList] = field(default_factory=dict)
    """What instances of each cluster's pools cost, by cluster key."""
    examples: tuple[str, ...] = ()
    """What of the data is an example, in words."""

    def control_plane_zones(self, key: str) -> tuple[str, ...]:
        """Name the zones in which a new cluster's control plane stands; none for a cluster that is there."""
        cluster = self.stack.config.clusters[key]
        return subnets.control_plane_zones(_with_subnets(cluster, self.zones)) if cluster.existing is None else ()

    @property
    def groups(self) -> int:
        """How many node groups there are in all clusters."""
        return sum(len(one.groups) for one in self.grids.values())

    @property
    def group_names(self) -> frozenset[str]:
        """Name the node groups of all clusters."""
        return frozenset(group.name for one in self.grids.values() for group in one.groups)

    @property
    def foreign_scaled(self) -> frozenset[str]:
        """Name the clusters whose nodes the runtime does not scale, and so does not drain."""
        clusters = self.stack.config.clusters
        others = [key for key, cluster in clusters.items() if cluster.autoscaler.node_scaler is not NodeScaler.NATIVE]
        return frozenset(self.stack.cluster_name(key) for key in others)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What may be meant as it is, and is worth a look."""
        quota = grid.quota_warning(self.groups, self.stack.config.asg_quota)
        flavors = [
            f"cluster {key}: {told}"
            for key, cluster in self.stack.config.clusters.items()
            for told in flavor_coverage.warnings(cluster, self.grids[key].groups)
        ]
        limits = [
            f"cluster {key}: {told}"
            for key, cluster in self.stack.config.clusters.items()
            for told in scaler_checks.warnings(cluster)
        ]
        drivers = [
            f"cluster {key}: {told}"
            for key, cluster in self.stack.config.clusters.items()
            for told in pool_images.warnings(cluster, self.grids[key].groups)
        ]
        return (*(() if quota is None else (quota,)), *flavors, *limits, *drivers, *self.examples)


def load(raw: Raw, directory: Path = OFFERINGS, price_directory: Path = PRICES) -> Loaded:
    """Check everything before anything is made; raise ConfigError with every problem."""
    examined = reading.examine(raw)
    found = list(examined.problems)
    offered = _offerings(raw, examined.clusters, found, directory)
    chosen = {key: type_choice.choose(cluster, offered) for key, cluster in examined.clusters.items()}
    clusters = {key: one.cluster for key, one in chosen.items()}
    found += [_under(key, problem) for key, one in chosen.items() for problem in one.problems]
    grids = {key: _grid(raw, key, cluster, offered) for key, cluster in clusters.items()}
    found += [_under(key, one) for key, made in grids.items() for one in made.problems]
    costs = _prices(raw, clusters, found, price_directory)
    account, region = str(raw.values.get("accountId")), str(raw.region)
    if raw.is_acted_on:
        found += examples.money(account, region, clusters, costs)
    found += _control_planes(examined.clusters, offered)
    found += _recipes(examined.config)
    images = examined.config.machine_images if examined.config else {}
    found += pool_images.problems(images, clusters, offered)
    if examined.config is not None:
        over = grid.quota(sum(len(one.groups) for one in grids.values()), examined.config.asg_quota)
        found += [over] if over else []
        found += _addresses(examined.config, grids, offered)
    if found or examined.config is None:
        raise problems.of_file([raw.discreet(one) for one in found], has_environment=raw.has_environment)
    config = examined.config.model_copy(update={"clusters": clusters})
    stack = Stack(name=raw.stack, region=str(raw.region), config=config)
    return Loaded(
        stack=stack,
        grids=grids,
        zones=offered.zones if offered else {},
        prices=costs,
        examples=tuple(examples.warnings(account, region, offered, costs)),
    )


def _offerings(
    raw: Raw, clusters: Mapping[str, Cluster], found: list[Problem], directory: Path
) -> offerings.Offerings | None:
    """Read what the region offers, if anybody needs to know."""
    if not isinstance(raw.region, str) or not any(cluster.node_pools for cluster in clusters.values()):
        return None
    try:
        return offerings.load(raw.region, directory, account=str(raw.values.get("accountId")))
    except offerings.OfferingsError as error:
        found.append(Problem(path=(reading.REGION_KEY,), value=raw.region, message=str(error)))
        return None


def _prices(raw: Raw, clusters: Mapping[str, Cluster], found: list[Problem], directory: Path) -> dict[str, PriceList]:
    """Read what instances cost in the region, and demand the prices that pools need."""
    if not isinstance(raw.region, str):
        return {}
    try:
        known = prices.load(raw.region, directory)
    except prices.PricesError as error:
        found.append(Problem(path=(reading.REGION_KEY,), value=raw.region, message=str(error)))
        return {}
    for key, cluster in clusters.items():
        found += [_under(key, one) for one in prices.problems(cluster, raw.region, known)]
    return {key: prices.of_cluster(cluster, known) for key, cluster in clusters.items()}


def _grid(raw: Raw, key: str, cluster: Cluster, offered: offerings.Offerings | None) -> grid.Grid:
    if offered is None:
        return grid.Grid(groups=())
    given = raw.values.get("tags")
    pairs = given.items() if isinstance(given, Mapping) else ()
    tags = {name: value for name, value in pairs if isinstance(value, str)}
    return grid.plan(cluster.name_in(raw.stack, key), cluster, offered, tags=tags)


def _control_planes(clusters: Mapping[str, Cluster], offered: offerings.Offerings | None) -> Iterator[Problem]:
    """Refuse a new cluster whose control plane would have no two zones to stand in."""
    for key, cluster in clusters.items():
        if cluster.existing is None and cluster.network is not None and offered is not None:
            try:
                subnets.control_plane_zones(_with_subnets(cluster, offered.zones))
            except subnets.SubnetError as error:
                yield Problem(path=("clusters", key, "network"), message=str(error), has_value=False)


def _addresses(
    config: StackConfig, grids: Mapping[str, grid.Grid], offered: offerings.Offerings | None
) -> Iterator[Problem]:
    """Refuse more NAT gateways than the account may have Elastic IPs for."""
    count = sum(_gateways(cluster, grids[key], offered) for key, cluster in config.clusters.items())
    if count > config.eip_quota:
        message = (
            f"the networks make {count} NAT gateways, each with an Elastic IP; use natGateways: single, or have AWS "
            "raise the quota (EC2-VPC Elastic IPs) and raise this number"
        )
        yield Problem(path=("eipQuota",), value=config.eip_quota, message=message)


def _gateways(cluster: Cluster, made: grid.Grid, offered: offerings.Offerings | None) -> int:
    if cluster.network is None or cluster.network.cidr is None or offered is None:
        return 0
    try:
        plane = subnets.control_plane_zones(_with_subnets(cluster, offered.zones)) if cluster.existing is None else ()
    except subnets.SubnetError:
        return 0  # reported by itself
    choice = cluster.network.nat_gateways
    return len(subnets.gateway_zones(choice, zones=made.zones(), lasting=made.lasting_zones(), control_plane=plane))


def _recipes(config: StackConfig | None) -> Iterator[Problem]:
    """Write each machine image's recipe, to see that it can be written."""
    for name, image in config.machine_images.items() if config else ():
        version = image_recipe.kubernetes_version(config, name) if config else ""
        try:
            image_recipe.document(image, kubernetes_version=version)
        except image_recipe.RecipeError as error:
            yield Problem(path=("machineImages", name), message=str(error), has_value=False)


def _with_subnets(cluster: Cluster, zones: Mapping[str, str]) -> dict[str, str]:
    """Return the zones in which the cluster can have a subnet: all of them in a network of its own."""
    given = cluster.network.subnet_ids if cluster.network else None
    return {zone: known for zone, known in zones.items() if given is None or zone in given}


def _under(cluster: str, one: Problem) -> Problem:
    return Problem(path=("clusters", cluster, *one.path), value=one.value, message=one.message, has_value=one.has_value)
