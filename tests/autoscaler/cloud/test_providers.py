"""Every provider that an account may name is made, and keeps the port."""

import asyncio
import inspect

import pytest

from autoscaler.api.resources import accounts
from autoscaler.api.settings.node_groups import NodeGroupKey
from autoscaler.cloud import port, providers, static
from autoscaler.cloud.aws import ec2_autoscaling

SPECS = {
    accounts.Provider.AWS: {"provider": "aws", "region": "eu-west-1"},
    accounts.Provider.STATIC: {"provider": "static"},
}
GROUP = port.NodeGroup(
    name=port.GroupName("any"),
    key=NodeGroupKey(pool="any", zone="eu-west-1a", instance_type="m5.large"),
    minimum=0,
    maximum=1,
    desired=0,
)


def opened(provider: accounts.Provider) -> port.Cloud:
    return providers.open_cloud(accounts.ProviderAccountSpec.model_validate(SPECS[provider]), cluster="bench")


@pytest.mark.accept("P2")
@pytest.mark.parametrize("provider", accounts.Provider)
def test_every_provider_has_the_ports_methods(provider: accounts.Provider) -> None:
    async def act() -> None:
        cloud = opened(provider)
        for name, method in inspect.getmembers(port.Cloud, inspect.isfunction):
            if not name.startswith("_"):
                made = getattr(type(cloud), name)
                assert inspect.signature(made).parameters.keys() == inspect.signature(method).parameters.keys()
        await cloud.aclose()

    asyncio.run(act())


def test_providers_are_what_they_are_called() -> None:
    async def act() -> None:
        assert isinstance(opened(accounts.Provider.AWS), ec2_autoscaling.Ec2AutoScaling)
        assert isinstance(opened(accounts.Provider.STATIC), static.Static)

    asyncio.run(act())


def test_an_account_whose_secret_is_missing_is_an_error() -> None:
    spec = accounts.ProviderAccountSpec.model_validate(
        {"provider": "aws", "region": "eu-west-1", "credentials": {"secretRef": {"namespace": "a", "name": "b"}}}
    )
    with pytest.raises(port.CloudError, match="a/b"):
        providers.open_cloud(spec, cluster="bench")


def test_fixed_nodes_are_neither_listed_nor_started_nor_ended() -> None:
    async def act() -> None:
        cloud = static.Static()
        assert await cloud.groups() == port.Listing()
        assert await cloud.activities(GROUP.name, since=0.0) == ()
        assert await cloud.lives([port.InstanceId("i-1")]) == {}
        assert await cloud.templates([port.TemplateRef(id="lt-1", version="1")]) == {}
        for outcome in (
            await cloud.set_desired(GROUP, 1),
            await cloud.terminate(GROUP, port.InstanceId("i-1"), decrement=False),
        ):
            assert outcome.verdict is port.Verdict.NOT_DONE
            assert outcome.error is not None
            assert outcome.error.reason is port.Reason.REFUSED

    asyncio.run(act())
