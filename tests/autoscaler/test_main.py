"""The command line prints what kubectl can apply, and errors that help."""

import pytest
import yaml

from autoscaler import __main__ as command
from autoscaler.api import crds, version


def documents(text: str) -> list[dict[str, object]]:
    return list(yaml.safe_load_all(text))


def test_crds_prints_all_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["crds"]) == 0
    assert documents(capsys.readouterr().out) == list(crds.all_crds())


def test_crds_prints_one_kind(capsys: pytest.CaptureFixture[str]) -> None:
    command.main(["crds", "--kind", "Scope"])
    (only,) = documents(capsys.readouterr().out)
    assert only["metadata"]["name"] == "scopes.sluice.dev"  # type: ignore[index]


def test_an_unknown_kind_is_an_error_that_lists_the_known(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        command.main(["crds", "--kind", "Pool"])
    assert "InstancePool" in capsys.readouterr().err


def test_yaml_has_no_aliases(capsys: pytest.CaptureFixture[str]) -> None:
    command.main(["crds"])
    assert "&id" not in capsys.readouterr().out


def test_policies_prints_each_with_its_binding(capsys: pytest.CaptureFixture[str]) -> None:
    command.main(["policies"])
    plain = [document["kind"] for document in documents(capsys.readouterr().out)]
    assert plain[1::2] == [f"{kind}Binding" for kind in plain[::2]]
    command.main(["policies", "--runtime-account", "sluice-system/sluice"])
    made = documents(capsys.readouterr().out)
    assert len(made) == len(plain) + 6
    assert "system:serviceaccount:sluice-system:sluice" in str(made[len(plain) :])


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    command.main(["version"])
    assert capsys.readouterr().out.strip() == version.VERSION
