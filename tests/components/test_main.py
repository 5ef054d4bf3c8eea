"""The commands for a stack's file: they print, and end with 1 where something is wrong."""

import json
from pathlib import Path

import pytest
import yaml

from autoscaler.api.settings.node_groups import NodeGroups
from autoscaler.api.settings.queued_jobs import FeatureGates, QueuedJobs
from autoscaler.api.settings.scaling import Expander, Scaling
from components import __main__ as command
from tests.components import configs


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return _write(tmp_path, configs.values())


def _write(tmp_path: Path, sluice: dict[str, object]) -> Path:
    config = {"aws:region": configs.REGION, **{f"sluice:{key}": value for key, value in sluice.items()}}
    made = tmp_path / "Pulumi.test.yaml"
    made.write_text(json.dumps({"config": config}))
    return made


def test_check_tells_each_file_and_fails_if_one_is_wrong(
    tmp_path: Path, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = tmp_path / "Pulumi.wrong.yaml"
    wrong.write_text("config: {}")
    assert command.main(["check", str(file)]) == 0
    assert command.main(["check", str(wrong), str(file)]) == 1
    printed = capsys.readouterr()
    assert printed.out.count("fine, 3 Auto Scaling groups") == 2
    assert f"{wrong}: the stack config has 3 problems" in printed.err


def test_check_warns_of_what_may_be_meant_and_does_not_fail(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flavors = {"f": {"nodeLabels": {"kind": "fast"}}}
    file = _write(tmp_path, configs.values(clusters={"bench": configs.cluster(resourceFlavors=flavors)}))
    assert command.main(["check", str(file)]) == 0
    assert f"{file}: warning: cluster bench: flavor f: no node pool has nodes with kind=fast" in capsys.readouterr().err


def _in_environment(tmp_path: Path, **sluice: object) -> Path:
    config = {f"sluice:{key}": value for key, value in sluice.items()}
    made = tmp_path / "Pulumi.test.yaml"
    made.write_text(json.dumps({"environment": ["platform/dev"], "config": config}))
    return made


def test_what_is_missing_may_come_from_the_files_environment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = _in_environment(tmp_path, clusters=configs.values()["clusters"])
    assert command.main(["check", str(file)]) == 0
    printed = capsys.readouterr().err
    assert f"{file}: cannot be checked without its environment" in printed
    assert "sluice:accountId: must be given (it may come from the environment)" in printed
    assert "aws:region: must be given, such as eu-west-1 (it may come from the environment)" in printed
    file = _in_environment(tmp_path, clusters=configs.values()["clusters"], asgQuota=0)
    assert command.main(["check", str(file)]) == 1
    assert "sluice:asgQuota = 0: must be at least 1" in capsys.readouterr().err


def test_a_key_without_a_namespace_is_ours_as_pulumi_reads_it(tmp_path: Path) -> None:
    made = tmp_path / "Pulumi.test.yaml"
    made.write_text(json.dumps({"config": {"aws:region": configs.REGION, **configs.values()}}))
    assert command.main(["check", str(made)]) == 0


def test_node_groups_are_printed_as_the_simulation_reads_them(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["nodegroups", str(file)]) == 0
    groups = NodeGroups.model_validate_json(capsys.readouterr().out)
    assert groups.cluster == "test-bench"
    assert [group.key.zone for group in groups.groups] == ["eu-west-1a", "eu-west-1b", "eu-west-1c"]


def test_declared_objects_are_printed_as_yaml(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["objects", str(file)]) == 0
    found = list(yaml.safe_load_all(capsys.readouterr().out))
    assert ("ProviderAccount", "aws") in {(each["kind"], each["metadata"]["name"]) for each in found}
    assert ("InstancePool", "services") in {(each["kind"], each["metadata"]["name"]) for each in found}


def test_how_queued_jobs_are_handled_is_printed_as_the_simulation_reads_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    autoscaler = {"featureGates": {"elasticJobs": False}, "podsReadyTimeoutMinutes": 45}
    file = _write(tmp_path, configs.values(clusters={"bench": configs.cluster(autoscaler=autoscaler)}))
    assert command.main(["queuedjobs", str(file)]) == 0
    got = QueuedJobs.model_validate_json(capsys.readouterr().out)
    assert got == QueuedJobs(feature_gates=FeatureGates(elastic_jobs=False), pods_ready_timeout_minutes=45)
    assert got.pods_ready_timeout_seconds == 2700.0


def test_how_nodes_are_scaled_is_printed_as_the_simulation_reads_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    autoscaler = {"expanders": ["price", "balanced"], "ceilings": {"nodes": 40}}
    file = _write(tmp_path, configs.values(clusters={"bench": configs.cluster(autoscaler=autoscaler)}))
    assert command.main(["scaling", str(file)]) == 0
    got = Scaling.model_validate_json(capsys.readouterr().out)
    assert (got.expanders, got.nodes, got.cores) == ((Expander.PRICE, Expander.BALANCED), 40, None)
    assert set(got.prices.hourly) == {"m7i.large"}
    assert got.prices.example


def test_all_that_a_simulation_reads_is_printed_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(_write(tmp_path, configs.values(clusters={"bench": configs.cluster()})))

    def printed(name: str) -> str:
        assert command.main([name, file]) == 0
        return capsys.readouterr().out

    want = {
        "groups": json.loads(printed("nodegroups")),
        "scaling": json.loads(printed("scaling")),
        "queuedJobs": json.loads(printed("queuedjobs")),
        "objects": list(yaml.safe_load_all(printed("objects"))),
    }
    assert json.loads(printed("simulation")) == want


@pytest.mark.accept("S5")
def test_the_grid_is_printed_for_a_pull_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pools = {"services": configs.SERVICES, "gpu": configs.pool(instanceTypes=["p3.8xlarge"])}
    file = _write(tmp_path, configs.values(clusters={"bench": configs.cluster(nodePools=pools)}))
    assert command.main(["nodegroups", str(file), "--format", "markdown"]) == 0
    printed = capsys.readouterr().out
    assert "**5 Auto Scaling groups**" in printed
    assert "| services | m7i.large | eu-west-1a, eu-west-1b, eu-west-1c | 1 to 2 | on-demand |" in printed
    assert "- gpu: p3.8xlarge is left out of eu-west-1" in printed


@pytest.mark.parametrize("arguments", [[], ["--cluster", "other"]])
def test_a_cluster_must_be_chosen_among_several(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    clusters = {"a": configs.cluster(), "b": configs.cluster()}
    file = _write(tmp_path, configs.values(clusters=clusters))
    assert command.main(["nodegroups", str(file), *arguments]) == 1
    assert "there are a, b" in capsys.readouterr().err
    assert command.main(["nodegroups", str(file), "--cluster", "b"]) == 0


def test_check_goes_on_after_a_file_that_is_not_there(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["check", "nowhere.yaml", str(file)]) == 1
    printed = capsys.readouterr()
    assert "nowhere.yaml" in printed.err
    assert "fine, 3 Auto Scaling groups" in printed.out


def test_a_file_that_is_no_yaml_is_told_with_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = tmp_path / "Pulumi.wrong.yaml"
    wrong.write_text("config:\n  a: 1\n  a: 2\n")
    assert command.main(["check", str(wrong)]) == 1
    want = f"{wrong}: the stack config has 1 problem; nothing was made:\n  the file: is wrong at line 3, column 3: "
    assert want in capsys.readouterr().err


def test_a_file_that_is_not_there_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["nodegroups", "nowhere.yaml"]) == 1
    assert "nowhere.yaml" in capsys.readouterr().err
