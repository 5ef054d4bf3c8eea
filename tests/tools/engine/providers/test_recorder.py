"""What no server plays is written down, without secrets, and drift in the file is seen."""

import json
from pathlib import Path

import pytest

from tests.tools.engine import builders
from tools.engine.providers import calls, recorder, wire

TYPE = "aws:ssm/parameter:Parameter"
INPUTS = {"name": "/a", "value": wire.Secret("hunter2"), "tier": "Standard"}


def test_a_recorded_resource_is_read_back_with_its_secrets_from_the_state(tmp_path: Path) -> None:
    store = recorder.Recorder(directory=tmp_path)
    store.create(builders.resource(TYPE), "id", INPUTS | {"arn": "arn:x"})

    found = store.read(builders.read(TYPE, INPUTS, INPUTS | {"arn": "arn:x"}))

    assert found == calls.State(id="id", outputs=INPUTS | {"arn": "arn:x"}, inputs=INPUTS)
    assert "hunter2" not in store.path(TYPE, "id").read_text()


def test_somebody_elses_change_is_drift(tmp_path: Path) -> None:
    store = recorder.Recorder(directory=tmp_path)
    store.create(builders.resource(TYPE), "id", INPUTS)
    path = store.path(TYPE, "id")
    facts = json.loads(path.read_text())
    facts["outputs"]["tier"] = "Advanced"
    path.write_text(json.dumps(facts))

    found = store.read(builders.read(TYPE, INPUTS))

    assert found is not None
    assert found.inputs == INPUTS | {"tier": "Advanced"}


def test_what_is_gone_is_told_by_a_read_and_refused_by_an_update(tmp_path: Path) -> None:
    store = recorder.Recorder(directory=tmp_path)
    store.create(builders.resource(TYPE), "id", INPUTS)
    store.delete(builders.delete(TYPE, INPUTS))
    store.delete(builders.delete(TYPE, INPUTS))

    assert store.read(builders.read(TYPE, INPUTS)) is None
    with pytest.raises(calls.RefusedError, match="is gone; run a refresh"):
        store.update(builders.update(TYPE, INPUTS, INPUTS), INPUTS)
