"""A provider account's credentials: read from its Secret, never shown, and missed with what to do."""

import asyncio
import base64
import json
from collections.abc import AsyncGenerator, Mapping, Sequence

import pytest

from autoscaler.api.resources.accounts import ProviderAccountSpec
from autoscaler.cloud import port as cloud
from autoscaler.kube import port
from autoscaler.runtime import account_credentials

KEPT = ProviderAccountSpec.model_validate(
    {
        "provider": "aws",
        "region": "eu-west-1",
        "credentials": {"secretRef": {"namespace": "sluice-system", "name": "team"}},
    }
)


class Secrets:
    """An API server with one Secret, or an answer in its place."""

    def __init__(self, status: int = 200, **data: str) -> None:
        self.asked: list[str] = []
        self._status = status
        self._data = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}

    async def send(self, request: port.Request) -> port.Response:
        self.asked.append(request.path)
        body = {"data": self._data} if self._status == 200 else {"reason": "No", "message": "no"}
        return port.Response(status=self._status, body=json.dumps(body).encode())

    def watch(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[Sequence[bytes], None]:
        raise NotImplementedError(path, query)


def opened(api: Secrets, spec: ProviderAccountSpec = KEPT) -> cloud.Cloud:
    async def act() -> cloud.Cloud:
        made = await account_credentials.open_cloud(api, "prod", "team", spec)
        await made.aclose()
        return made

    return asyncio.run(act())


def test_an_account_without_credentials_uses_the_runtimes_own_role() -> None:
    api = Secrets()
    opened(api, ProviderAccountSpec.model_validate({"provider": "aws", "region": "eu-west-1"}))
    assert api.asked == []


def test_credentials_come_from_the_secret_and_are_never_shown() -> None:
    api = Secrets(accessKeyId="AKIAEXAMPLE", secretAccessKey="hunter2")
    made = opened(api)
    assert api.asked == ["/api/v1/namespaces/sluice-system/secrets/team"]
    assert "hunter2" not in repr(made) + repr(vars(made))


@pytest.mark.parametrize(
    ("api", "reason", "want"),
    [
        (Secrets(404), cloud.Reason.DENIED, "is not there: create it"),
        (Secrets(403), cloud.Reason.DENIED, "Add sluice-system to autoscaler.secretNamespaces"),
        (Secrets(503), cloud.Reason.UNREACHABLE, "could not be read"),
        (Secrets(accessKeyId="AKIAEXAMPLE"), cloud.Reason.DENIED, "secretAccessKey"),
    ],
)
def test_credentials_that_cannot_be_had_are_named_with_what_to_do(
    api: Secrets, reason: cloud.Reason, want: str
) -> None:
    with pytest.raises(cloud.CloudError, match=want) as caught:
        opened(api)
    assert caught.value.reason is reason
