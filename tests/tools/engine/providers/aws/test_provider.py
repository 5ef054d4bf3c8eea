"""Which types moto plays, what a preview knows, and that nothing real is ever called."""

import json
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from tests.tools.engine import builders
from tools.engine.providers import calls, journal, recorder, wire
from tools.engine.providers.aws import cloud, groups, provider, templates

CLUSTER = "aws:eks/cluster:Cluster"
ENTRY = "aws:eks/accessEntry:AccessEntry"


@pytest.fixture
def aws(tmp_path: Path) -> provider.Aws:
    clusters = tmp_path / "clusters.json"
    clusters.write_text(json.dumps({"*": {"endpoint": "https://127.0.0.1:1", "certificateAuthority": "QQ=="}}))
    store = recorder.Recorder(directory=tmp_path / "recorded")
    return provider.Aws("7.51.1", journal.Journal(tmp_path / "journal", "aws"), store, clusters)


def test_a_preview_returns_the_inputs_and_calls_nobody(aws: provider.Aws, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    inputs = {"name": "g", "minSize": wire.UNKNOWN}
    assert aws.create(builders.create(groups.TYPE, inputs, preview=True)) == calls.State(id="", outputs=inputs)


@pytest.mark.parametrize("endpoint", ["", "https://autoscaling.eu-west-1.example.com"])
def test_the_real_aws_is_refused(aws: provider.Aws, monkeypatch: pytest.MonkeyPatch, endpoint: str) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    with pytest.raises(calls.RefusedError, match="only to a moto on loopback"):
        aws.create(builders.create(groups.TYPE, {"name": "g", "minSize": 0, "maxSize": 1}))


def test_the_version_of_a_changed_template_is_unknown_in_a_preview(aws: provider.Aws) -> None:
    old = {"name": "t", "userData": "eA=="}
    outputs = old | {"latestVersion": 1, "arn": "arn:t"}
    changed = aws.update(
        builders.update(templates.TYPE, old, old | {"userData": "eQ=="}, outputs=outputs, preview=True)
    )
    tagged = aws.update(builders.update(templates.TYPE, old, old | {"tags": {"a": "b"}}, outputs=outputs, preview=True))
    assert changed.outputs["latestVersion"] is wire.UNKNOWN
    assert (tagged.outputs["latestVersion"], tagged.outputs["arn"]) == (1, "arn:t")


def test_a_recorded_update_keeps_what_aws_had_added(aws: provider.Aws) -> None:
    old: dict[str, Any] = {"name": "c", "version": "1.36", "vpcConfig": {"subnetIds": ["a"]}, "gone": 1}
    state = aws.create(builders.create(CLUSTER, old))
    new = {"name": "c", "version": "1.37", "vpcConfig": {"subnetIds": ["a", "b"]}}
    asked = calls.Update(
        resource=builders.resource(CLUSTER),
        id=state.id,
        old_inputs=old,
        old_outputs=state.outputs,
        inputs=new,
        preview=False,
    )

    outputs = aws.update(asked).outputs

    assert (outputs["version"], outputs["vpcConfig"]["subnetIds"]) == ("1.37", ["a", "b"])
    assert outputs["vpcConfig"]["clusterSecurityGroupId"].startswith("sg-")
    assert outputs["endpoint"] == "https://127.0.0.1:1"
    assert "gone" not in outputs


def entry(principal: str, cluster: str = "c") -> dict[str, Any]:
    return {"clusterName": cluster, "principalArn": f"arn:aws:iam::123456789012:role/{principal}"}


def test_one_principal_has_one_access_entry_of_a_cluster(aws: provider.Aws) -> None:
    made = aws.create(builders.create(ENTRY, entry("a")))
    aws.create(builders.create(ENTRY, entry("b")))
    aws.create(builders.create(ENTRY, entry("a", "other")))
    with pytest.raises(calls.RefusedError, match=r"409.*role/a is already in use"):
        aws.create(builders.create(ENTRY, entry("a")))
    gone = calls.Delete(resource=builders.resource(ENTRY), id=made.id, old_inputs=entry("a"), old_outputs=made.outputs)
    aws.delete(gone)
    aws.create(builders.create(ENTRY, entry("a")))


LONG = "k" * 129


@pytest.mark.parametrize(
    "inputs",
    [
        {"tags": {LONG: "v"}},
        {"tags": [{"key": LONG, "value": "v"}]},
        {"tagSpecifications": [{"resourceType": "instance", "tags": {LONG: "v"}}]},
    ],
)
def test_a_tag_key_that_aws_finds_too_long_is_refused(aws: provider.Aws, inputs: dict[str, Any]) -> None:
    old = entry("a")
    aws.create(builders.create(ENTRY, old | {"tags": {LONG[1:]: "v"}}))
    with pytest.raises(calls.RefusedError, match=f"tag key {LONG} is over 128"):
        aws.create(builders.create(ENTRY, entry("b") | inputs))
    with pytest.raises(calls.RefusedError, match=f"tag key {LONG} is over 128"):
        aws.update(builders.update(ENTRY, old, old | inputs))


REFUSED = pytest.raises(calls.RefusedError, match="not allowed: 123456789012")


@pytest.mark.parametrize(("allowed", "outcome"), [("111122223333", REFUSED), ("123456789012", nullcontext())])
def test_another_account_than_the_allowed_one_is_refused(
    aws: provider.Aws, monkeypatch: pytest.MonkeyPatch, allowed: str, outcome: AbstractContextManager[object]
) -> None:
    asked: list[str] = []

    def answer(self: cloud.Cloud, service: str, operation: str, arguments: dict[str, Any]) -> dict[str, Any]:
        del self, arguments
        asked.append(f"{service} {operation}")
        return {"Account": "123456789012"}

    monkeypatch.setattr(cloud.Cloud, "_send", answer)
    aws.configure({"allowedAccountIds": json.dumps([allowed])})
    aws.create(builders.create(ENTRY, entry("a"), preview=True))
    assert asked == []
    for principal in ("a", "b"):
        with outcome:
            aws.create(builders.create(ENTRY, entry(principal)))
    assert asked == ["sts get_caller_identity"]


def test_a_secret_input_is_a_secret_output(aws: provider.Aws) -> None:
    kind = "aws:ssm/parameter:Parameter"
    state = aws.create(builders.create(kind, {"name": "/p", "value": wire.Secret("hunter2")}))
    assert state.outputs["value"] == wire.Secret("hunter2")
