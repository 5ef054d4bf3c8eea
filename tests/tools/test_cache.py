"""Where the cache is: the variable, else the XDG directory, else the home directory."""

from pathlib import Path

from tools import cache


def test_an_explicit_cache_wins() -> None:
    assert cache.directory({"SLUICE_CACHE": "/a/b", "XDG_CACHE_HOME": "/c"}) == Path("/a/b")


def test_the_users_cache_directory_is_next() -> None:
    assert cache.directory({"XDG_CACHE_HOME": "/c"}) == Path("/c/sluice")


def test_without_either_it_is_in_the_home_directory() -> None:
    assert cache.directory({"SLUICE_CACHE": ""}) == Path.home() / ".cache" / "sluice"


def test_a_relative_cache_does_not_move_with_the_working_directory() -> None:
    assert cache.directory({"SLUICE_CACHE": "here"}).is_absolute()
