"""Leadership in its own thread: what goes wrong there is not lost."""

import asyncio
from pathlib import Path

import pytest

from autoscaler import clock
from autoscaler.kube.connection import credentials
from autoscaler.kube.leases import election
from autoscaler.runtime import leadership


def test_missing_credentials_are_told_at_start_and_stopping_still_works(tmp_path: Path) -> None:
    origin = credentials.InCluster(host="127.0.0.1", port=1, directory=tmp_path)
    make = leadership.elector_maker(clock.SystemClock(), namespace="default", identity="a", terms=election.Terms())

    async def scenario() -> None:
        leading = leadership.InThread(origin, make)
        with pytest.raises(credentials.CredentialsError, match="token file"):
            await leading.start(["sluice"])
        assert "CredentialsError" in (leading.failure() or "")
        assert leading.remaining("sluice") == 0
        await leading.stop(release=True)

    asyncio.run(scenario())


def test_a_kubeconfig_that_makes_no_sense_is_an_error_that_does_not_quote_it(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("token: *TOPSECRET")
    with pytest.raises(credentials.CredentialsError) as refusal:
        asyncio.run(credentials.Credentials.load(credentials.KubeConfig(path=path)))
    assert str(path) in str(refusal.value)
    assert "TOPSECRET" not in str(refusal.value)
