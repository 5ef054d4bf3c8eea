"""What one account has told of its instances and launch templates, and how it is asked for it. It decides nothing."""

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import structlog

from autoscaler.api.resources.accounts import ProviderAccountSpec
from autoscaler.api.settings.node_groups import NodeGroupKey
from autoscaler.cloud import catalogue, view
from autoscaler.cloud import port as cloud

log = structlog.get_logger()
REMEMBERED_SECONDS: Final = 3600.0
"""For how long instances that are gone are remembered."""
TEMPLATES_AT_ONCE: Final = 20
"""So many launch templates are read at once that nothing waits for."""
IMAGES_SECONDS: Final = 600.0
"""How often to look which image a parameter means."""
Questions = Mapping[cloud.InstanceId, NodeGroupKey | None]
"""Instances that somebody asks about, and which group each was of, as far as that is known."""


@dataclass(slots=True, kw_only=True)
class AccountState:
    """One account as it is known."""

    spec: ProviderAccountSpec
    view: view.View
    types: catalogue.Catalogue
    problem: str | None = None
    """Why it could not be read last time."""
    failures: int = 0
    is_tried: bool = False
    """It was read once, and asked what its launch templates say."""
    half_read: int = 0
    """How often in a row it was read, and did not tell all of its instances and launch templates."""
    not_told: str = ""
    """What came instead, the last time."""
    is_out: bool = False
    """Whether it was among the outages when it was last read."""
    failing_since: float | None = None
    """When it could first not be read, of all the times in a row, on the clock that never goes back."""
    due_at: float = 0.0
    asked_at: float | None = None
    """Since when it is being read, on the clock that never goes back; None: it is not."""
    templates: dict[cloud.TemplateRef, cloud.Template] = field(default_factory=dict)
    """What versions of launch templates say, of those in use."""
    images: dict[str, str] = field(default_factory=dict)
    """What parameters mean from which groups start their images, by how launch templates name them."""
    images_at: float = 0.0
    """When to look again what they mean."""
    outdated: frozenset[cloud.InstanceId] | None = None
    """Instances of another launch template than their group has now, when that was last known; None: it never was."""
    listed_before: float | None = None
    """When the listing before the present one was asked for."""
    asked: frozenset[cloud.InstanceId] = frozenset()
    """Instances whose lives were asked for and answered."""
    lives: dict[cloud.InstanceId, cloud.InstanceTimes] = field(default_factory=dict)
    """When instances began and ended, of those that are there and those that are gone lately."""
    appeared: dict[cloud.InstanceId, float] = field(default_factory=dict)
    """When instances were seen for the first time, of those that were not there at first."""
    homes: dict[cloud.InstanceId, NodeGroupKey] = field(default_factory=dict)
    """Which group each instance is or was of."""
    left_at: dict[cloud.InstanceId, float] = field(default_factory=dict)
    """When instances were first seen to be gone."""
    ends: dict[cloud.InstanceId, float] = field(default_factory=dict)
    """When groups say that they ended instances, where the provider itself does not tell."""


async def ask_templates(seen: AccountState, reading: view.Reading, now: float) -> None:
    """Ask what launch templates say that are in use, where a group has instances of several; then about images."""
    groups = [group for group in reading.groups.values() if group.members]
    mixed = [group for group in groups if any(one.template != group.template for one in group.members)]
    wanted = {one.template for group in mixed for one in group.members} | {group.template for group in mixed}
    current = {group.template for group in groups if group.template is not None}
    used = current | {ref for ref in wanted if ref is not None}
    known = {ref: told for ref, told in seen.templates.items() if ref in used and ref.version.isdecimal()}
    unknown = {ref for ref in wanted if ref is not None} - known.keys()  # $Latest may say something else each time
    seen.templates = {**known, **(await seen.view.cloud.templates(sorted(unknown)) if unknown else {})}
    seen.outdated = frozenset(one for group in groups for one in _outdated(seen, group))
    await _ask_images(seen, current, now)
    seen.outdated = frozenset(one for group in groups for one in _outdated(seen, group))


async def _ask_images(seen: AccountState, current: Iterable[cloud.TemplateRef], now: float) -> None:
    """Ask which images parameters mean that groups start from: each once in a while, through one launch template.

    What the launch templates say is asked once for each, a few at a time.
    """
    unknown = sorted(ref for ref in current if ref not in seen.templates)[:TEMPLATES_AT_ONCE]
    seen.templates = {**seen.templates, **(await seen.view.cloud.templates(unknown) if unknown else {})}
    said = {ref: seen.templates[ref].image_id for ref in sorted(current) if ref in seen.templates}
    by_parameter = {image: ref for ref, image in said.items() if image.startswith(cloud.BY_PARAMETER)}
    if now >= seen.images_at or by_parameter.keys() - seen.images.keys():
        found = await seen.view.cloud.images(sorted(by_parameter.values())) if by_parameter else {}
        seen.images = {image: found[ref] for image, ref in by_parameter.items() if ref in found}
        seen.images_at = now + IMAGES_SECONDS


async def ask_lives(seen: AccountState, reading: view.Reading, questions: Questions, now: float) -> bool:
    """Ask about instances that are new, and about those that are gone since we last looked; once each.

    True: something was answered that somebody has asked.
    """
    there = {one.id: group.key for group in reading.groups.values() for one in group.instances}
    unknown = there.keys() - seen.lives.keys()
    gone = {one for one, life in seen.lives.items() if one not in there and not life.is_over}
    open_questions = questions.keys() - seen.asked
    wanted = unknown | gone | open_questions
    seen.homes |= there
    if wanted:
        told = await seen.view.cloud.lives(sorted(wanted))
        silent = [one for one in wanted if _is_silent(told.get(one), is_listed=one in there)]
        await _ask_ends(seen, reading, questions, silent)  # all is known of an end, or nothing
        seen.asked |= wanted
        if seen.listed_before is not None:
            seen.appeared |= dict.fromkeys(unknown, now)
        seen.lives |= told
        seen.lives |= {one: dataclasses.replace(seen.lives[one], is_over=True) for one in gone - told.keys()}
    _forget(seen, there.keys(), questions, now)
    return bool(open_questions)


async def _ask_ends(
    seen: AccountState, reading: view.Reading, questions: Questions, gone: Iterable[cloud.InstanceId]
) -> None:
    """Ask groups when they ended instances of which the provider does not tell; only once, for it matters little."""
    names = {group.key: group.name for group in reading.groups.values()}
    by_group: dict[cloud.GroupName, set[cloud.InstanceId]] = {}
    for one in gone:
        home = seen.homes.get(one) or questions.get(one)
        if home in names:
            by_group.setdefault(names[home], set()).add(one)
    for name, ended in sorted(by_group.items()):
        since = min(seen.lives[one].launched_at if one in seen.lives else 0.0 for one in ended)
        try:
            found = await seen.view.cloud.activities(name, since=since)
        except cloud.CloudError as error:
            log.info("ends_not_read", group=name, reason=error.reason, error=error.message)
            continue
        ends = [each for each in found if each.kind is cloud.ActivityKind.TERMINATE]
        seen.ends |= {each.instance: each.started_at for each in ends if each.instance in ended}


def _forget(seen: AccountState, there: Collection[cloud.InstanceId], questions: Questions, now: float) -> None:
    """Keep what is known of instances that are there, gone lately, or asked for."""
    seen.appeared = {one: at for one, at in seen.appeared.items() if one in there}
    seen.left_at = {one: seen.left_at.get(one, now) for one in seen.lives if one not in there}
    old = {one for one, at in seen.left_at.items() if at <= now - REMEMBERED_SECONDS}
    seen.lives = {one: life for one, life in seen.lives.items() if one not in old}
    known = seen.lives.keys() | questions.keys()
    if seen.asked - known:
        seen.asked &= known
    seen.homes = {one: home for one, home in seen.homes.items() if one in known}
    seen.ends = {one: at for one, at in seen.ends.items() if one in known}


def _outdated(seen: AccountState, group: cloud.NodeGroup) -> Iterable[cloud.InstanceId]:
    """Yield instances that differ from what their group starts now; of an image by parameter, by what that means."""
    now = seen.templates.get(group.template) if group.template is not None else None
    meant = seen.images.get(now.image_id) if now is not None else None
    for one in group.members if now is not None else ():
        was = seen.templates.get(one.template) if one.template is not None else None
        image = seen.lives[one.id].image_id if one.id in seen.lives else ""
        is_same = was == now if not (meant and image) else image == meant and _user_data(was) == _user_data(now)
        if was is not None and not is_same:
            yield one.id


def _user_data(template: cloud.Template | None) -> str | None:
    return template.user_data_sha256 if template is not None else None


def _is_silent(life: cloud.InstanceTimes | None, *, is_listed: bool) -> bool:
    """Tell whether an instance has ended and the provider does not say when."""
    return not is_listed if life is None else life.is_over and life.ended_at is None


# What several accounts say, as one


def together(*groups: cloud.NodeGroup) -> tuple[cloud.NodeGroup, ...]:
    """Return the groups of all accounts."""
    return groups


def united(*told: frozenset[cloud.InstanceId] | None) -> frozenset[cloud.InstanceId]:
    """Return what any account tells."""
    return frozenset(one for each in told for one in each or ())


def merged(*told: Mapping[cloud.InstanceId, cloud.InstanceTimes]) -> dict[cloud.InstanceId, cloud.InstanceTimes]:
    """Return the lives of all accounts' instances."""
    return {one: life for each in told for one, life in each.items()}


def in_all(*asked: frozenset[cloud.InstanceId]) -> frozenset[cloud.InstanceId]:
    """Return the instances that every account was asked for."""
    return frozenset.intersection(*asked) if asked else frozenset()


def launched_at(*told: Mapping[cloud.InstanceId, Any]) -> dict[cloud.InstanceId, float]:
    """Take, for each account, the lives of its instances and when they appeared."""
    return {
        one: max(life.launched_at, appeared.get(one, 0.0))
        for lives, appeared in zip(told[::2], told[1::2], strict=True)
        for one, life in lives.items()
    }
