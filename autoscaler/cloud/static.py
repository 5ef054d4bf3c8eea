"""Nodes that somebody else provides: there is nothing to list, to start or to end."""

from collections.abc import Collection, Mapping

from autoscaler.cloud import port


class Static:
    """A cloud without node groups."""

    async def groups(self, names: Collection[port.GroupName] | None = None) -> port.Listing:  # noqa: ARG002
        return port.Listing()

    async def set_desired(self, group: port.NodeGroup, desired: int) -> port.Outcome:
        return _refused(f"setting the desired capacity of {group.name} to {desired}")

    async def terminate(self, group: port.NodeGroup, instance: port.InstanceId, *, decrement: bool) -> port.Outcome:  # noqa: ARG002
        return _refused(f"ending {instance} of {group.name}")

    async def activities(self, group: port.GroupName, *, since: float) -> tuple[port.Activity, ...]:  # noqa: ARG002
        return ()

    async def lives(self, instances: Collection[port.InstanceId]) -> Mapping[port.InstanceId, port.InstanceTimes]:  # noqa: ARG002
        return {}

    async def templates(self, templates: Collection[port.TemplateRef]) -> Mapping[port.TemplateRef, port.Template]:  # noqa: ARG002
        return {}

    async def images(self, templates: Collection[port.TemplateRef]) -> Mapping[port.TemplateRef, str]:  # noqa: ARG002
        return {}

    async def aclose(self) -> None:
        """Nothing is open."""


def _refused(what: str) -> port.Outcome:
    error = port.CloudError(
        port.Reason.REFUSED, f"{what} was not done: provider static has fixed nodes; use a pool of provider aws"
    )
    return port.Outcome(verdict=port.Verdict.NOT_DONE, group=None, error=error)
