"""Zones are filled evenly, lowest first, and never beyond a skew; the quick way agrees with one pod at a time."""

from hypothesis import given
from hypothesis import strategies as st

from autoscaler.capacity.scaleup.placement import levels

ZONES = ("a", "b", "c")
counts = st.fixed_dictionaries(dict.fromkeys(ZONES, st.integers(0, 9)))
caps = st.fixed_dictionaries(dict.fromkeys(ZONES, st.sampled_from([0, 1, 5, 1000])))


@given(st.integers(0, 60), counts, caps, st.integers(1, 3), st.integers(1, 4))
def test_dealing_at_once_gives_as_many_as_one_by_one(
    wanted: int, there: dict[str, int], limits: dict[str, int], skew: int, least: int
) -> None:
    spread = levels.Levels(counts=there, max_skew=skew, min_domains=least)
    at_once = levels.share_out(wanted, limits, [spread], ZONES)
    single = levels.share_out(wanted, limits, [spread, spread], ZONES)
    assert sum(at_once.values()) == sum(single.values())
    assert all(at_once[zone] <= limits[zone] for zone in at_once)
    after = {zone: there[zone] + at_once.get(zone, 0) for zone in ZONES}
    floor = min(after.values()) if least <= len(ZONES) else 0
    assert all(after[zone] - floor <= skew for zone, count in at_once.items() if count)


def test_without_a_skew_everything_is_dealt() -> None:
    even = levels.Levels(counts={"a": 5, "b": 0})
    assert levels.share_out(9, {"a": 100, "b": 100}, [even], ("a", "b")) == {"a": 2, "b": 7}


def test_who_does_not_count_itself_goes_only_where_the_skew_holds_already() -> None:
    others = levels.Levels(counts={"a": 3, "b": 1, "c": 1}, max_skew=1, counts_itself=False)
    even = levels.Levels(counts={"a": 0, "b": 0, "c": 0})
    assert levels.share_out(9, dict.fromkeys(ZONES, 100), [others, even], ZONES) == {"b": 5, "c": 4}


def test_a_domain_that_takes_nothing_holds_the_others_down() -> None:
    spread = levels.Levels(counts={"a": 0, "b": 0, "full": 2}, max_skew=1)
    assert levels.share_out(99, {"a": 100, "b": 100}, [spread], ("a", "b")) == {"a": 3, "b": 3}
