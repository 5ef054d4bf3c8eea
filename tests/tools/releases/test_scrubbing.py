"""A recorded state carries nothing of the machine it was recorded on."""

import base64
import json
from typing import Any

from tools.releases import fixtures, scrubbing

FOREIGN = {"https://127.0.0.1:43210": "https://127.0.0.1:6443", "/home/somebody/": "/somewhere/"}


def state(**resource: Any) -> dict[str, Any]:
    deployment = {
        "manifest": {"time": "2026-11-17T02:40:55Z", "magic": "m", "version": "v"},
        "secrets_providers": {"type": "passphrase", "state": {"salt": "s"}},
        "metadata": {},
        "resources": [resource],
    }
    return {"version": 3, "deployment": deployment}


def scrubbed(**resource: Any) -> dict[str, Any]:
    [found] = scrubbing.scrubbed(state(**resource), FOREIGN)["deployment"]["resources"]
    one: dict[str, Any] = found
    return one


def test_addresses_and_paths_are_replaced_also_inside_base64() -> None:
    data = base64.b64encode(b"join https://127.0.0.1:43210 now").decode()
    found = scrubbed(inputs={"at": "https://127.0.0.1:43210/api", "files": ["/home/somebody/x"], "data": data})
    assert found["inputs"]["at"] == "https://127.0.0.1:6443/api"
    assert found["inputs"]["files"] == ["/somewhere/x"]
    assert base64.b64decode(found["inputs"]["data"]) == b"join https://127.0.0.1:6443 now"


def test_other_texts_stay_as_they_are() -> None:
    inputs = {"digest": "e3b0c44298fc1c149afbf4c8996fb924", "other": base64.b64encode(b"\xff" * 24).decode(), "n": 3}
    assert scrubbed(inputs=inputs)["inputs"] == inputs


def test_secrets_keep_their_shape_and_lose_their_text() -> None:
    secret = {scrubbing.SIGNATURE: scrubbing.SECRET, "plaintext": json.dumps({"password": "hunter2", "port": 1})}
    found = scrubbed(inputs={"data": secret})["inputs"]["data"]
    assert json.loads(found["plaintext"]) == {"password": "scrubbed", "port": 1}


def test_times_positions_and_the_salt_go() -> None:
    whole = scrubbing.scrubbed(state(created="2026-11-17T02:40:55Z", stackTrace=["/a"], sourcePosition="b"), FOREIGN)
    assert whole["deployment"]["resources"] == [{"created": scrubbing.TIME}]
    assert "secrets_providers" not in whole["deployment"]
    assert whole["deployment"]["manifest"]["time"] == scrubbing.TIME


def test_a_written_state_reads_as_it_was() -> None:
    whole = scrubbing.scrubbed(state(urn="a", inputs={"b": [1]}), FOREIGN)
    assert json.loads(fixtures.written_state(whole)) == whole
    assert json.loads(fixtures.written_state({"version": 3, "deployment": {"resources": []}}))["version"] == 3
