"""What is told about upgrades is what is done."""

from tools.engine.layout import REPOSITORY
from tools.stack import commands


def test_the_page_has_the_commands_that_are_tested() -> None:
    option, pattern = commands.DEFINITIONS_FIRST
    page = (REPOSITORY / "docs" / "operations.md").read_text()
    assert f"pulumi up --stack dev {option} '{pattern}'\npulumi up --stack dev\n" in page
