"""Too old is refused with what to do; newer is fine."""

import pytest

from autoscaler.api import version
from autoscaler.runtime import compatibility


@pytest.mark.accept("S7")
@pytest.mark.parametrize(("major", "minor"), [("1", "35"), ("1", "35+"), ("0", "99"), ("1", "")])
def test_an_old_kubernetes_is_refused(major: str, minor: str) -> None:
    with pytest.raises(compatibility.IncompatibleError, match=r"needs 1\.36 or newer"):
        compatibility.kubernetes(major, minor, "v1.35.0")


@pytest.mark.accept("S7")
@pytest.mark.parametrize(("major", "minor"), [("1", "36"), ("1", "36+"), ("1", "40"), ("2", "0")])
def test_a_recent_kubernetes_is_fine(major: str, minor: str) -> None:
    compatibility.kubernetes(major, minor, "")


@pytest.mark.accept("S7")
@pytest.mark.parametrize(
    ("stamp", "refused"),
    [("0.0.9", True), ("", True), ("nonsense", True), (version.VERSION, False), ("0.1.7", False), ("1.0.0", False)],
)
def test_a_definition_of_an_older_minor_version_is_refused(stamp: str, *, refused: bool) -> None:
    if not refused:
        compatibility.definition("scopes.sluice.dev", stamp)
        return
    with pytest.raises(compatibility.IncompatibleError, match=r"scopes\.sluice\.dev.*pulumi up"):
        compatibility.definition("scopes.sluice.dev", stamp)


def test_other_peoples_definitions_are_not_judged() -> None:
    compatibility.definition("widgets.example.com", "")
