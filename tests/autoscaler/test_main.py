"""The command line prints what kubectl can apply, and errors that help."""

import pytest
import yaml

from autoscaler import __main__ as command
from autoscaler.api import crds, policies, version
from autoscaler.api.policies import leaving


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
    runtime = policies.Runtime(namespace="sluice-system", service_account="sluice")
    assert len(made) == len(plain) + 2 * len(policies.about_runtime(runtime))
    assert "system:serviceaccount:sluice-system:sluice" in str(made[len(plain) :])


@pytest.mark.parametrize("account", ["sluice-system/sluice", "system:serviceaccount:sluice-system:sluice"])
def test_a_runtimes_account_is_written_either_way(account: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["policies", "--runtime-account", account]) == 0
    want = policies.manifests(policies.Runtime(namespace="sluice-system", service_account="sluice"))
    assert documents(capsys.readouterr().out) == list(want)


@pytest.mark.parametrize(
    "account", ["foo", "a/", "/b", "a/b/c", "a:b", "A/b", "system:serviceaccount:a/b", "", "a/b:c"]
)
def test_an_account_that_is_none_makes_no_policy(account: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        command.main(["policies", "--runtime-account", account])
    said = capsys.readouterr()
    assert said.out == ""
    assert f"{account!r} is no ServiceAccount" in said.err
    assert "system:serviceaccount:NAMESPACE:NAME" in said.err


def test_deployers_are_named_with_the_runtime_that_they_may_end(capsys: pytest.CaptureFixture[str]) -> None:
    named = ["--deployer-user", "pipeline", "--deployer-group", "ops", "--deployer-group", "sre"]
    assert command.main(["policies", *named]) == 2
    assert "--runtime-account" in capsys.readouterr().err
    assert command.main(["policies", "--runtime-account", "a/b", *named]) == 0
    deployers = leaving.Deployers(users=("pipeline",), groups=("ops", "sre"))
    want = policies.manifests(policies.Runtime(namespace="a", service_account="b", deployers=deployers))
    assert documents(capsys.readouterr().out) == list(want)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    command.main(["version"])
    assert capsys.readouterr().out.strip() == version.VERSION
