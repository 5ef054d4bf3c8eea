"""Where config comes from: the program and the file say the same; secrets stay apart."""

import json
from pathlib import Path

import pytest

from components import loading
from components.config import reading
from tests.components import configs, monitor

STACKS = Path(__file__).parent.parent.parent.parent / "stacks"


def write(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "Pulumi.test.yaml"
    file.write_text(text)
    return file


def test_a_file_and_the_program_give_the_same_stack(tmp_path: Path) -> None:
    config = {"aws:region": configs.REGION, **{f"sluice:{key}": value for key, value in configs.values().items()}}
    file = write(tmp_path, json.dumps({"config": config}))
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in config.items()}
    found: list[loading.Loaded] = []
    monitor.run(lambda: found.append(loading.load(reading.of_program())), config=texts)
    assert found == [loading.load(reading.of_file(file))]


@pytest.mark.parametrize("stack", ["local", "dev", "prod"])
@pytest.mark.accept("S5")
def test_every_environment_can_be_checked_without_engine_or_aws(stack: str) -> None:
    loaded = loading.load(reading.of_file(STACKS / f"Pulumi.{stack}.yaml"))
    assert loaded.groups > 0


def test_numbers_that_the_cli_wrote_as_text_are_read_as_numbers() -> None:
    assert configs.load(configs.values(asgQuota="300")).stack.config.asg_quota == 300


def test_secrets_are_known_by_name_only(tmp_path: Path) -> None:
    raw = reading.of_file(write(tmp_path, "config: {'sluice:secrets': {pull: {secure: v1:abc}}}"))
    assert raw.secrets == {"pull"}
    assert "secrets" not in raw.values
    assert not raw.secret_keys


@pytest.mark.parametrize("text", ["", "[]", "config: 5", "config:"])
def test_a_file_without_config_is_an_error_of_the_config_not_a_crash(tmp_path: Path, text: str) -> None:
    examined = reading.examine(reading.of_file(write(tmp_path, text)))
    assert {problem.path[0] for problem in examined.problems} == {"aws:region", "accountId", "clusters"}


@pytest.mark.parametrize(
    ("region", "want"),
    [
        ("eu-west-1", "aws"),
        ("cn-north-1", "aws-cn"),
        ("us-gov-west-1", "aws-us-gov"),
        ("us-iso-east-1", "aws-iso"),
        ("us-isob-east-1", "aws-iso-b"),
    ],
)
def test_the_partition_follows_the_region(region: str, want: str) -> None:
    stack = configs.load().stack
    assert reading.Stack(name="x", region=region, config=stack.config).partition == want
