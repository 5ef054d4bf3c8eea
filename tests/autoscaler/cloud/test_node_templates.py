"""Tags and the stack's specification tell the same of a node."""

import contextlib

import hypothesis
import pytest
from hypothesis import strategies

from autoscaler.api import keys
from autoscaler.cloud import node_templates
from tests.contract.cloud import worlds


def test_tags_say_what_the_specification_says() -> None:
    spec = worlds.spec("any")
    assert node_templates.of_tags(spec.tags) == node_templates.of_spec(spec)


def test_amounts_are_whole_numbers_in_their_units() -> None:
    prefix = keys.TAG_TEMPLATE_RESOURCES
    node = node_templates.of_tags({f"{prefix}cpu": "1.5", f"{prefix}ephemeral-storage": "20Gi", f"{prefix}x/y": "3"})
    assert node.resources == {"cpu": 1500, "ephemeral-storage": 20 * 1024**3, "x/y": 3}


def test_a_taint_may_have_no_value() -> None:
    [taint] = node_templates.of_tags({f"{keys.TAG_TEMPLATE_TAINT}dedicated": ":NoSchedule"}).taints
    assert (taint.key, taint.value, taint.effect) == ("dedicated", "", "NoSchedule")


@pytest.mark.parametrize("text", ["x:Never", "", "a b:NoSchedule"])
def test_a_taint_that_cannot_be_read_names_its_tag(text: str) -> None:
    tag = f"{keys.TAG_TEMPLATE_TAINT}dedicated"
    with pytest.raises(ValueError, match=tag):
        node_templates.of_tags({tag: text})


@hypothesis.given(
    strategies.dictionaries(
        strategies.sampled_from([keys.TAG_TEMPLATE_TAINT, keys.TAG_TEMPLATE_RESOURCES]).flatmap(
            lambda prefix: strategies.text(max_size=8).map(lambda key: prefix + key)
        ),
        strategies.text(max_size=12),
    )
)
def test_whatever_tags_say_is_a_node_or_a_value_error(tags: dict[str, str]) -> None:
    with contextlib.suppress(ValueError):
        node_templates.of_tags(tags)
