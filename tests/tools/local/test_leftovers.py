"""What a dead owner left is found and removed, and nothing else is."""

import dataclasses
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tools.local import builders
from tools.local import leftovers, process

DEAD = process.Identity(pid=2**22 - 1, started_ticks=1)


class World:
    """A registry of its own, with planes whose only component is a sleeping process."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.environment = {"SLUICE_CACHE": str(root / "cache")}
        self.children: list[subprocess.Popen[bytes]] = []

    def plane(self, name: str) -> leftovers.Entry:
        directory = self.root / name
        (directory / "data").mkdir(parents=True)
        entry = leftovers.register(name, directory, self.environment)
        child = process.start(
            ["sleep", "60"],
            record=entry.record("sleeper"),
            log=directory / "log",
            environment=dict(os.environ),
            directory=directory,
        )
        self.children.append(child)
        builders.wait_until(entry.running)
        return entry

    def set_owner(self, entry: leftovers.Entry, owner: process.Identity | None, **more: str) -> None:
        path = entry.path / "plane.json"
        facts = json.loads(path.read_text())
        path.write_text(json.dumps(facts | {"owner": dataclasses.asdict(owner) if owner else None} | more))

    def clean(self) -> list[str]:
        return [entry.identifier for entry in leftovers.clean(self.environment)]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    for child in made.children:
        child.kill()
        child.wait()


def test_a_plane_whose_owner_lives_is_left_alone(world: World) -> None:
    entry = world.plane("ours")
    assert world.clean() == []
    assert entry.running().keys() == {"sleeper"}
    assert entry.owner == process.identity(os.getpid())


def test_a_plane_whose_owner_died_is_ended_and_removed(world: World) -> None:
    entry, other = world.plane("orphaned"), world.plane("ours")
    world.set_owner(entry, DEAD)
    assert world.clean() == ["orphaned"]
    assert world.children[0].wait(timeout=5) < 0
    assert not entry.path.exists()
    assert not (entry.directory / "data").exists()
    assert other.running()
    assert world.clean() == []


def test_an_owner_whose_pid_was_recycled_is_dead(world: World) -> None:
    entry = world.plane("orphaned")
    me = process.identity(os.getpid())
    assert me is not None
    world.set_owner(entry, dataclasses.replace(me, started_ticks=me.started_ticks - 1))
    assert world.clean() == ["orphaned"]


def test_a_recorded_pid_that_is_another_process_now_is_not_killed(world: World) -> None:
    entry, foreign = world.plane("orphaned"), world.plane("foreign")
    [known] = foreign.running().values()
    stat = foreign.record("sleeper").read_text()
    entry.record("recycled").write_text(stat.replace(f" {known.started_ticks} ", f" {known.started_ticks - 1} "))
    world.set_owner(entry, DEAD)
    assert world.clean() == ["orphaned"]
    assert process.is_alive(known)


def test_a_detached_plane_lives_on_until_its_directory_is_gone(world: World) -> None:
    entry = leftovers.detach(world.plane("detached"))
    assert world.clean() == []
    (entry.directory / leftovers.MARKER).unlink()
    assert world.clean() == ["detached"]
    assert world.children[0].wait(timeout=5) < 0


def test_what_an_earlier_boot_left_is_forgotten_without_killing_anybody(world: World) -> None:
    entry = world.plane("before")
    world.set_owner(entry, entry.owner, boot_id="another boot")
    assert world.clean() == ["before"]
    assert world.children[0].poll() is None


def test_data_of_a_directory_that_belongs_to_another_plane_by_now_is_kept(world: World) -> None:
    entry = world.plane("first")
    (entry.directory / leftovers.MARKER).write_text("second")
    world.set_owner(entry, DEAD)
    assert world.clean() == ["first"]
    assert (entry.directory / "data").exists()


def test_an_entry_that_was_never_finished_is_removed(world: World) -> None:
    entry = world.plane("whole")
    (entry.registry / "half").mkdir()
    assert world.clean() == ["half"]
    assert not (entry.registry / "half").exists()


def test_a_process_that_starts_while_its_plane_is_removed_never_runs(world: World) -> None:
    entry = world.plane("going")
    world.set_owner(entry, DEAD)
    world.clean()
    late = process.start(
        ["touch", "ran"],
        record=entry.record("late"),
        log=world.root / "log",
        environment=dict(os.environ),
        directory=world.root,
    )
    assert late.wait(timeout=10) != 0
    assert not (world.root / "ran").exists()


def test_release_is_idempotent(world: World) -> None:
    entry = world.plane("ours")
    leftovers.release(entry)
    leftovers.release(entry)
    assert leftovers.of_directory(entry.directory, world.environment) == []
