"""Which instance types a pool's requirements name. Pure: config and offerings in, a list of types out.

Types are taken from the offerings that the repository keeps, so that a preview is the same everywhere, and a new type
shows in the review of that file and of the groups it makes.
"""

import difflib
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from components.config import type_requirements
from components.config.base import Problem
from components.config.clusters import Cluster
from components.config.node_pools import TYPES_MAX, NodePool
from components.config.type_requirements import InstanceTypeRequirements
from components.regions.offerings import InstanceTypeOffer, Offerings

_NAME: Final = re.compile(r"(?P<family>[a-z]+(?:-[0-9]+tb)?)(?P<generation>[0-9]+)[^.]*\.(?P<size>.+)")
_UNSET: Final = InstanceTypeRequirements()


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """A cluster whose pools list their types, and what is wrong with their requirements."""

    cluster: Cluster
    problems: tuple[Problem, ...] = ()


def choose(cluster: Cluster, offerings: Offerings | None) -> Chosen:
    """Replace requirements by the types that fit; by none where the offerings are not known."""
    pools: dict[str, NodePool] = {}
    problems: list[Problem] = []
    for name, pool in cluster.node_pools.items():
        wanted = pool.instance_types
        if isinstance(wanted, tuple):
            pools[name] = pool
            continue
        fitting = _fitting(wanted, pool, offerings) if offerings is not None else ()
        found = list(_problems(wanted, pool, fitting, offerings)) if offerings is not None else []
        place = ("nodePools", name, "instanceTypes")
        problems += [
            Problem(path=(*place, *one.path), value=one.value, message=one.message, has_value=one.has_value)
            for one in found
        ]
        pools[name] = pool.model_copy(update={"instance_types": () if found else fitting})
    return Chosen(cluster=cluster.model_copy(update={"node_pools": pools}), problems=tuple(problems))


def family(instance_type: str) -> str:
    """Return the letters with which a type's name begins: m of m7i.large."""
    found = _NAME.fullmatch(instance_type)
    return found["family"] if found else instance_type.partition(".")[0]


def _fitting(wanted: InstanceTypeRequirements, pool: NodePool, offerings: Offerings) -> tuple[str, ...]:
    """Return the types that fit and that one of the pool's zones offers: small ones first."""
    zones = set(offerings.zones) if isinstance(pool.zones, str) else set(pool.zones)
    offers = {name: offer for name, offer in offerings.types.items() if zones & set(offer.zones)}
    fits = [name for name, offer in offers.items() if _fits(wanted, name, offer)]
    return tuple(sorted(fits, key=lambda name: (offers[name].vcpus, offers[name].memory_mib, name)))


def _fits(wanted: InstanceTypeRequirements, name: str, offer: InstanceTypeOffer) -> bool:
    parsed = _NAME.fullmatch(name)
    if parsed is None:
        return False
    return (
        type_requirements.span(wanted.vcpus).has(offer.vcpus)
        and type_requirements.span(wanted.memory_gib).has(offer.memory_mib / 1024)
        and type_requirements.span(wanted.generations).has(int(parsed["generation"]))
        and (not wanted.families or parsed["family"] in wanted.families)
        and offer.architecture in wanted.architectures
        and (wanted.bare_metal or not parsed["size"].startswith("metal"))
        and _has_gpu(wanted.gpu, offer)
    )


def _has_gpu(wanted: str, offer: InstanceTypeOffer) -> bool:
    if wanted == type_requirements.NO_GPU:
        return not offer.gpus
    return bool(offer.gpus) if wanted == type_requirements.ANY_GPU else offer.gpu_name == wanted


def _problems(
    wanted: InstanceTypeRequirements, pool: NodePool, fitting: tuple[str, ...], offerings: Offerings
) -> Iterator[Problem]:
    families = {family(name) for name in offerings.types}
    gpus = {offer.gpu_name for offer in offerings.types.values() if offer.gpu_name}
    unknown = list(_unknown_families(wanted.families, families, offerings.region))
    if wanted.gpu not in {type_requirements.NO_GPU, type_requirements.ANY_GPU, *gpus}:
        known = ("none", "any", *sorted(gpus))
        message = f"{_guess(wanted.gpu, known)}known in {offerings.region}: {', '.join(known)}"
        unknown.append(Problem(path=("gpu",), value=wanted.gpu, message=message))
    yield from unknown
    if not fitting and not unknown:
        yield Problem(path=(), has_value=False, message=_nothing(wanted, pool, offerings))
    if len(fitting) > TYPES_MAX:
        count = Counter(map(family, fitting))
        each = ", ".join(f"{name} {number}" for name, number in sorted(count.items()))
        message = f"{len(fitting)} instance types fit, and a pool has at most {TYPES_MAX}: ask for more, or split it"
        yield Problem(path=(), has_value=False, message=f"{message} ({each})")


def _unknown_families(wanted: Iterable[str], known: set[str], region: str) -> Iterator[Problem]:
    for index, name in enumerate(wanted):
        if name not in known:
            message = f"{_guess(name, sorted(known))}families of instance types in {region}: {', '.join(sorted(known))}"
            yield Problem(path=("families", index), value=name, message=message)


def _guess(name: str, known: Iterable[str]) -> str:
    lower = [one for one in known if one.lower() == name.lower()]
    close = lower or difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {close[0]}? " if close else ""


def _nothing(wanted: InstanceTypeRequirements, pool: NodePool, offerings: Offerings) -> str:
    """Say which single requirement keeps types out, so that people need not try."""
    relaxed = {
        InstanceTypeRequirements.model_fields[field].alias or field: len(
            _fitting(wanted.model_copy(update={field: getattr(_UNSET, field)}), pool, offerings)
        )
        for field in sorted(wanted.model_fields_set)
    }
    fewer = [f"without {field} {number} would" for field, number in relaxed.items() if number]
    why = f": {', '.join(fewer)}" if fewer else ", and dropping any one of these does not help"
    where = offerings.region if isinstance(pool.zones, str) else ", ".join(pool.zones)
    return f"no instance type that {where} offers fits{why}"
