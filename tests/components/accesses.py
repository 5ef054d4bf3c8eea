"""Ways into clusters, for what is put into them. To be called inside a program that monitor.run runs."""

from typing import Any

from components.config.clusters import Cluster
from components.eks import cluster
from tests.components import configs, places


def config(**fields: Any) -> Cluster:
    """The config of a new cluster."""
    return configs.of_cluster(configs.cluster(**fields)).stack.config.clusters["bench"]


def of_eks() -> cluster.Access:
    """The way into a cluster of EKS that is there already."""
    return _existing({"eksCluster": "lab"})


def of_another() -> cluster.Access:
    """The way into a cluster that is none of EKS."""
    return _existing({})


def _existing(fields: dict[str, str]) -> cluster.Access:
    found = configs.of_cluster(configs.existing(existing=fields)).stack.config.clusters["bench"]
    assert found.existing is not None
    args = cluster.ExistingClusterArgs(place=places.place(), config=found, existing=found.existing)
    return cluster.ExistingCluster("bench", args).access
