"""How the API server says no: one exception, made by the reason, which becomes a Status object."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from autoscaler.kube import port
from autoscaler.kube.kinds import ResourceType

MODIFIED: Final = "the object has been modified; please apply your changes to the latest version and try again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One field that is wrong, and why."""

    field: str
    message: str
    reason: str = "FieldValueInvalid"


class Refusal(Exception):  # noqa: N818  # an answer, not an accident
    """The request is answered with a failure."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: Mapping[str, Any] | None = None,
        retry_after_seconds: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.retry_after_seconds = retry_after_seconds

    def status(self) -> dict[str, Any]:
        """Make the Status object."""
        status: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        status["message"] = self.message
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = dict(self.details)
        return {**status, "code": self.code}

    def response(self) -> port.Response:
        return port.Response(
            status=self.code, body=msgspec.json.encode(self.status()), retry_after_seconds=self.retry_after_seconds
        )


def resource_name(resource: ResourceType) -> str:
    """Name a resource as error messages do: `machines.sluice.dev`."""
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural


def details(resource: ResourceType, name: str) -> dict[str, Any]:
    """Describe what an answer is about."""
    group = {"group": resource.group} if resource.group else {}
    return {"name": name, **group, "kind": resource.plural}


def not_served() -> Refusal:
    return Refusal(404, "NotFound", "the server could not find the requested resource", details={})


def not_allowed() -> Refusal:
    message = "the server does not allow this method on the requested resource"
    return Refusal(405, "MethodNotAllowed", message, details={})


def not_found(resource: ResourceType, name: str) -> Refusal:
    message = f'{resource_name(resource)} "{name}" not found'
    return Refusal(404, "NotFound", message, details=details(resource, name))


def already_exists(resource: ResourceType, name: str) -> Refusal:
    message = f'{resource_name(resource)} "{name}" already exists'
    return Refusal(409, "AlreadyExists", message, details=details(resource, name))


def conflict(resource: ResourceType, name: str, why: str = MODIFIED) -> Refusal:
    message = f'Operation cannot be fulfilled on {resource_name(resource)} "{name}": {why}'
    return Refusal(409, "Conflict", message, details=details(resource, name))


def forbidden(resource: ResourceType, name: str, why: str) -> Refusal:
    message = f'{resource_name(resource)} "{name}" is forbidden: {why}'
    return Refusal(403, "Forbidden", message, details=details(resource, name))


def bad_request(message: str) -> Refusal:
    return Refusal(400, "BadRequest", message)


def invalid(resource: ResourceType, name: str, causes: Sequence[Cause]) -> Refusal:
    """Name each wrong field."""
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    said = [f"{cause.field}: {cause.message}" for cause in causes]
    listed = said[0] if len(said) == 1 else f"[{', '.join(said)}]"
    about = {**details(resource, name), "kind": resource.kind}
    about["causes"] = [{"reason": cause.reason, "message": cause.message, "field": cause.field} for cause in causes]
    return Refusal(422, "Invalid", f'{kind} "{name}" is invalid: {listed}', details=about)


def expired(message: str) -> Refusal:
    return Refusal(410, "Expired", message)


def as_cause(field: str, why: str, *, value: object = None, reason: str = "FieldValueInvalid") -> Cause:
    """Say what is wrong with a field in the API server's words."""
    match reason:
        case "FieldValueRequired":
            return Cause(field=field, message=f"Required value: {why}" if why else "Required value", reason=reason)
        case "FieldValueForbidden":
            return Cause(field=field, message=f"Forbidden: {why}", reason=reason)
        case _:
            shown = msgspec.json.encode(value).decode()
            return Cause(field=field, message=f"Invalid value: {shown}: {why}", reason=reason)
