"""Stack configs for tests: everything has a default, a test sets what matters."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from components import loading
from components.config import reading
from components.regions.offerings import InstanceTypeOffer, Offerings

REGION = "eu-west-1"
ACCOUNT = "123456789012"
RELEASE = "1.36.2-20261101"
SERVICES: dict[str, Any] = {
    "nodeType": "k8s-services",
    "instanceTypes": ["m7i.large"],
    "minPerGroup": 1,
    "maxPerGroup": 2,
}


def pool(**fields: Any) -> dict[str, Any]:
    """A pool of workers."""
    return {"nodeType": "worker", "instanceTypes": ["c5.18xlarge"], **fields}


def cluster(**fields: Any) -> dict[str, Any]:
    """A cluster of EKS with the pool that its services need."""
    default: dict[str, Any] = {
        "kubernetesVersion": "1.36",
        "network": {"cidr": "10.32.0.0/16"},
        "endpoint": {"public": True, "allowedCidrs": ["203.0.113.0/24"]},
        "access": {"admins": [f"arn:aws:iam::{ACCOUNT}:role/deployer"]},
        "nodeImage": {"release": RELEASE},
        "nodePools": {"services": SERVICES},
    }
    return copy.deepcopy({**default, **fields})


def existing(**fields: Any) -> dict[str, Any]:
    """A cluster that is there already."""
    default: dict[str, Any] = {
        "kubernetesVersion": "1.36",
        "network": {"cidr": "10.32.0.0/16"},
        "nodeImage": {"release": RELEASE},
        "existing": {
            "join": {"endpoint": "https://api.test:6443", "certificateAuthority": "Y2E=", "serviceCidr": "10.0.0.0/24"}
        },
    }
    return copy.deepcopy({**default, **fields})


def values(**fields: Any) -> dict[str, Any]:
    """The values under `sluice:`, in Python's form."""
    return {"accountId": ACCOUNT, "clusters": {"bench": cluster()}, **fields}


def raw(
    sluice: Mapping[str, Any] | None = None,
    *,
    region: object = REGION,
    stack: str = "test",
    secrets: Mapping[str, str] | None = None,
    secret_keys: frozenset[str] = frozenset(),
    outside: Mapping[str, Any] | None = None,
) -> reading.Raw:
    """Config as it would be found in a stack's file."""
    config = {f"sluice:{key}": value for key, value in (values() if sluice is None else sluice).items()}
    config |= {"sluice:secrets": dict(secrets)} if secrets else {}
    config |= {"aws:region": region} if region else {}
    config |= outside or {}
    return reading.Raw.of(stack, config, secret_keys)


def load(
    sluice: Mapping[str, Any] | None = None, *, directory: Path = loading.OFFERINGS, **place: Any
) -> loading.Loaded:
    """A stack whose config is right."""
    return loading.load(raw(sluice, **place), directory)


def of_cluster(fields: Mapping[str, Any], **place: Any) -> loading.Loaded:
    """A stack with one cluster, called bench."""
    return load(values(clusters={"bench": dict(fields)}), **place)


def offer(*zones: str, **fields: Any) -> InstanceTypeOffer:
    """An instance type that is offered in the zones with these letters."""
    default: dict[str, Any] = {
        "architecture": "amd64",
        "vcpus": 2,
        "memory_mib": 8192,
        "network_interfaces": 3,
        "addresses_per_interface": 10,
    }
    return InstanceTypeOffer(**{**default, **fields, "zones": tuple(f"{REGION}{letter}" for letter in zones)})


def offerings(**types: InstanceTypeOffer) -> Offerings:
    """What a region of three zones offers; `m7i_large` stands for m7i.large."""
    named = {name.replace("_", "."): offered for name, offered in types.items()}
    zones = {f"{REGION}{letter}": f"euw1-az{index}" for index, letter in enumerate("abc", start=1)}
    return Offerings(region=REGION, zones=zones, types=named)
