"""Of two stacks, the one that cannot be used is named."""

from pathlib import Path

import pytest

from autoscaler.simulate import command

LOCAL = Path(__file__).parents[3] / "stacks" / "Pulumi.local.yaml"


@pytest.mark.parametrize("text", ["config: {}\n", "config:\n  a: 1\n  a: 2\n"])
def test_what_is_wrong_with_one_of_two_stacks_is_told_with_its_file(tmp_path: Path, text: str) -> None:
    day, wrong = tmp_path / "day.yaml", tmp_path / "Pulumi.wrong.yaml"
    day.write_text("starts: 2026-06-30T06:00:00Z\nlasts: 1m\n")
    wrong.write_text(text)
    with pytest.raises(command.SimulateError) as caught:
        command.simulate(command.Request(stack=LOCAL, against=wrong, trace=day), lambda _: None)
    assert str(caught.value).startswith(f"{wrong}: the stack config has ")
