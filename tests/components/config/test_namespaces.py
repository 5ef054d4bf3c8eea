"""Keys that nobody would read are refused, whatever their namespace."""

import pytest

from components.config import namespaces, problems
from tests.components import configs

pytestmark = pytest.mark.accept("S3")


@pytest.mark.parametrize("slip", ["sluise", "slucie", "slice", "Sluice", "SLUICE", "sluices", "sluic", "sluice "])
def test_a_slip_of_our_namespace_is_an_error(slip: str) -> None:
    (found,) = namespaces.problems([f"{slip}:tags"])
    assert problems.told(found) == f"{slip}:tags: would be ignored; did you mean sluice:tags?"


@pytest.mark.parametrize(
    "key",
    ["pulumi:disable-default-providers", "docker-build:registries", "aws:region", "sluice:tags", "random:x", "sl:x"],
)
def test_keys_of_others_are_theirs(key: str) -> None:
    assert not list(namespaces.problems([key]))


@pytest.mark.parametrize(
    ("key", "want"),
    [
        ("aws:profile", "give sluice:aws.profile"),
        ("aws:assumeRoles", "give sluice:aws.assumeRole"),
        ("aws:assumeRole", "give sluice:aws.assumeRole"),
        ("aws:defaultTags", "give sluice:tags"),
        ("aws:maxRetries", "leave it out"),
        ("kubernetes:context", "give existing.context of the cluster"),
    ],
)
def test_keys_of_providers_that_the_program_makes_are_errors(key: str, want: str) -> None:
    (found,) = namespaces.problems([key])
    assert problems.told(found) == f"{key}: would be ignored, since the program makes its own providers: {want}"


def test_such_keys_are_told_with_everything_else() -> None:
    with pytest.raises(problems.ConfigError) as caught:
        configs.load(configs.values(asgQuota=0), outside={"sluise:tags": {}, "aws:profile": "x"})
    told = str(caught.value)
    assert all(one in told for one in ("sluise:tags", "aws:profile", "sluice:asgQuota"))
