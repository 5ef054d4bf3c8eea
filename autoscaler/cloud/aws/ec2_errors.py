"""What AWS's and boto's errors mean to us. Pure. No message of ours quotes one of theirs that may hold a credential.

What matters most is whether a write that failed may have landed: a refusal certainly did nothing, silence may have.
Whoever has an error of boto's has imported boto; the runtime that only starts does not wait for that.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from autoscaler.cloud import port

if TYPE_CHECKING:
    import botocore.exceptions as boto

_THROTTLED: Final = frozenset(
    {
        "EC2ThrottledException",
        "PriorRequestNotComplete",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "SlowDown",
        "ThrottledException",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
    }
)
_DENIED: Final = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "AuthFailure",
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidAccessKeyId",
        "InvalidClientTokenId",
        "MissingAuthenticationToken",
        "OptInRequired",
        "SignatureDoesNotMatch",
        "UnauthorizedOperation",
        "UnrecognizedClientException",
    }
)
_CONTENTION: Final = frozenset({"ResourceContention", "ResourceContentionFault", "ScalingActivityInProgress"})
"""Somebody else's change is under way; ours was not begun, although AWS says so with a 500."""
_QUOTED_MAX: Final = 300
_CHECK: Final = "see the ProviderAccount's roleArn or Secret, or the role of the runtime's own pod"


def translated(error: Exception, what: str, *, is_write: bool) -> port.CloudError:
    """Say in our words what went wrong with `what`, such as `SetDesiredCapacity of bench.batch`."""
    import botocore.exceptions as boto  # noqa: PLC0415  # see above

    match error:
        case boto.ClientError():
            return _answered(error, what, is_write=is_write)
        case (
            boto.NoCredentialsError()
            | boto.PartialCredentialsError()
            | boto.CredentialRetrievalError()
            | boto.TokenRetrievalError()
            | boto.UnauthorizedSSOTokenError()
        ):
            return port.CloudError(port.Reason.DENIED, f"{what} was not sent, for there are no credentials: {_CHECK}")
        case (
            boto.ConnectTimeoutError()
            | boto.EndpointConnectionError()
            | boto.ProxyConnectionError()
            | boto.SSLError()
            | boto.NoRegionError()
            | boto.ParamValidationError()
        ):
            return port.CloudError(
                port.Reason.UNREACHABLE,
                f"{what} was not sent ({type(error).__name__}): see whether AWS can be reached from here",
            )
        case _:
            return unanswered(what, type(error).__name__, is_write=is_write)


def unanswered(what: str, why: str, *, is_write: bool) -> port.CloudError:
    """Say that a call was sent and has no answer that can be read."""
    return port.CloudError(
        port.Reason.UNREACHABLE,
        f"{what} got no whole answer ({why}): see whether AWS can be reached, and its health dashboard",
        may_have_landed=is_write,
    )


def _answered(error: "boto.ClientError", what: str, *, is_write: bool) -> port.CloudError:
    response: Mapping[str, Any] = error.response
    code = str(response.get("Error", {}).get("Code", ""))
    message = str(response.get("Error", {}).get("Message", ""))
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if code in _THROTTLED:
        return port.CloudError(port.Reason.THROTTLED, f"{what} was throttled ({code}): it is asked again later")
    if code in _DENIED or status in {401, 403}:
        return port.CloudError(port.Reason.DENIED, f"{what} was denied ({code}): {_CHECK}")
    if code in _CONTENTION:
        return _refused(what, code, message)
    if status >= 500 or status < 400:
        return unanswered(what, f"status {status} {code}", is_write=is_write)
    if "NotFound" in code or "NonExistentQueue" in code or "not found" in message:
        return port.CloudError(
            port.Reason.NOT_FOUND, f"{what} found nothing: {_quoted(message) or code}; read it again"
        )
    return _refused(what, code, message)


def _refused(what: str, code: str, message: str) -> port.CloudError:
    return port.CloudError(
        port.Reason.REFUSED, f"{what} was refused ({code}): {_quoted(message)}; see the group in AWS"
    )


def _quoted(message: str) -> str:
    return message[:_QUOTED_MAX].rstrip(". ")
