"""What AWS's errors are read as, and above all whether a write that failed may have landed."""

from typing import Any

import botocore.exceptions as boto
import pytest

from autoscaler.cloud import port
from autoscaler.cloud.aws import ec2_errors

SECRET = "wJalrXUtnFEMI"
WHAT = "SetDesiredCapacity of bench.batch"


def of_code(code: str, status: int = 400, message: str = SECRET) -> boto.ClientError:
    response: Any = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return boto.ClientError(response, "SetDesiredCapacity")


@pytest.mark.parametrize(
    ("error", "want", "may_have_landed"),
    [
        (of_code("Throttling"), port.Reason.THROTTLED, False),
        (of_code("ThrottlingException"), port.Reason.THROTTLED, False),
        (of_code("RequestLimitExceeded", 503), port.Reason.THROTTLED, False),
        (of_code("AccessDenied", 403), port.Reason.DENIED, False),
        (of_code("UnauthorizedOperation", 403), port.Reason.DENIED, False),
        (of_code("ExpiredToken", 400), port.Reason.DENIED, False),
        (of_code("Whatever", 401), port.Reason.DENIED, False),
        (of_code("ValidationError", 400, "New value 9 is above max value 5"), port.Reason.REFUSED, False),
        (of_code("ScalingActivityInProgress", 400), port.Reason.REFUSED, False),
        (of_code("ResourceContention", 500), port.Reason.REFUSED, False),
        (of_code("ValidationError", 400, "AutoScalingGroup name not found"), port.Reason.NOT_FOUND, False),
        (of_code("InvalidInstanceID.NotFound", 400), port.Reason.NOT_FOUND, False),
        (of_code("InvalidLaunchTemplateId.VersionNotFound", 400), port.Reason.NOT_FOUND, False),
        (of_code("AWS.SimpleQueueService.NonExistentQueue", 400), port.Reason.NOT_FOUND, False),
        (of_code("InternalFailure", 500), port.Reason.UNREACHABLE, True),
        (of_code("ServiceUnavailable", 503), port.Reason.UNREACHABLE, True),
        (of_code("503", 503), port.Reason.UNREACHABLE, True),
        (boto.NoCredentialsError(), port.Reason.DENIED, False),
        (boto.PartialCredentialsError(provider="env", cred_var="key"), port.Reason.DENIED, False),
        (boto.CredentialRetrievalError(provider="role", error_msg=SECRET), port.Reason.DENIED, False),
        (boto.ConnectTimeoutError(endpoint_url="x"), port.Reason.UNREACHABLE, False),
        (boto.EndpointConnectionError(endpoint_url="x"), port.Reason.UNREACHABLE, False),
        (boto.SSLError(endpoint_url="x", error=OSError(SECRET)), port.Reason.UNREACHABLE, False),
        (boto.ReadTimeoutError(endpoint_url="x"), port.Reason.UNREACHABLE, True),
        (boto.ConnectionClosedError(endpoint_url="x"), port.Reason.UNREACHABLE, True),
        (boto.HTTPClientError(error=OSError(SECRET)), port.Reason.UNREACHABLE, True),
        (boto.IncompleteReadError(actual_bytes=1, expected_bytes=2), port.Reason.UNREACHABLE, True),
        (ValueError(SECRET), port.Reason.UNREACHABLE, True),
    ],
)
def test_errors_have_reasons(error: Exception, want: port.Reason, may_have_landed: bool) -> None:  # noqa: FBT001
    got = ec2_errors.translated(error, WHAT, is_write=True)
    assert got.reason is want
    assert got.may_have_landed is may_have_landed
    assert WHAT in got.message
    assert len(got.message) > len(WHAT) + 20, "says what to do next"


@pytest.mark.parametrize("code", ["AccessDenied", "SignatureDoesNotMatch", "InvalidClientTokenId", "Throttling"])
def test_what_aws_says_of_credentials_is_not_quoted(code: str) -> None:
    assert SECRET not in ec2_errors.translated(of_code(code, 403), WHAT, is_write=True).message


def test_what_aws_says_of_a_refused_number_is_quoted_but_not_at_length() -> None:
    got = ec2_errors.translated(of_code("ValidationError", 400, "above max value 5. " * 100), WHAT, is_write=True)
    assert "above max value 5" in got.message
    assert len(got.message) < 500


def test_a_read_never_landed() -> None:
    assert not ec2_errors.translated(of_code("InternalFailure", 500), WHAT, is_write=False).may_have_landed
