"""Only Amazon's own hosts are asked, with the Secret's keys or the runtime's role; errors are told in our words."""

import asyncio
from typing import Any

import botocore.exceptions as botocore_errors
import pytest
import yarl

from autoscaler.queues import port, sqs
from tests.autoscaler.queues import contract

MOTO = sqs.Override(endpoint="http://127.0.0.1:5000", region="eu-west-1")


@pytest.mark.parametrize(
    ("url", "region"),
    [
        ("https://sqs.eu-west-1.amazonaws.com/1/jobs", "eu-west-1"),
        ("https://sqs.cn-north-1.amazonaws.com.cn/1/jobs", "cn-north-1"),
        ("https://sqs-fips.us-east-1.amazonaws.com/1/jobs", "us-east-1"),
        ("https://us-east-2.queue.amazonaws.com/1/jobs", "us-east-2"),
        ("https://vpce-0a-1b.sqs.eu-west-1.vpce.amazonaws.com/1/jobs", "eu-west-1"),
        ("https://sqs.eu-west-1.api.aws/1/jobs", "eu-west-1"),
    ],
)
def test_the_region_is_read_from_the_queues_url(url: str, region: str) -> None:
    want = sqs.Account(endpoint=str(yarl.URL(url).origin()), region=region)
    assert sqs.account_of(yarl.URL(url), keys=None) == want


@pytest.mark.accept("W22")
@pytest.mark.parametrize(
    "url",
    [
        "http://sqs.eu-west-1.amazonaws.com/1/jobs",
        "https://sqs.eu-west-1.amazonaws.com:8443/1/jobs",
        "https://sqs.eu-west-1.amazonaws.com.evil.example/1/jobs",
        "https://evil.example/sqs.eu-west-1.amazonaws.com",
        "https://evil.sqs.eu-west-1.amazonaws.com/1/jobs",
        "https://bucket.s3.amazonaws.com/1/jobs",
        "http://169.254.169.254/1/jobs",
        "http://127.0.0.1:5001/1/jobs",
    ],
)
def test_other_hosts_are_not_asked(url: str) -> None:
    with pytest.raises(port.QueueError, match="not the URL of a queue") as caught:
        sqs.account_of(yarl.URL(url), keys=None, override=MOTO)
    assert caught.value.reason is port.Reason.ENDPOINT_REFUSED


def test_the_runtimes_own_endpoint_for_aws_may_be_asked() -> None:
    got = sqs.account_of(yarl.URL("http://127.0.0.1:5000/1/jobs"), keys=None, override=MOTO)
    assert got == sqs.Account(endpoint=MOTO.endpoint, region=MOTO.region)


def test_keys_come_from_the_secret_and_are_not_shown() -> None:
    fake = contract.FakeSqs(text="4")
    secret = {**contract.SECRET, "SessionToken": b"t0ken"}
    queue = sqs.SqsQueue(fake, yarl.URL(contract.FAKE_QUEUE), secret=secret)
    assert asyncio.run(queue.length()) == 4
    [(account, url)] = fake.asked
    assert url == contract.FAKE_QUEUE
    want = sqs.Keys(access_key_id="AKIDEXAMPLE", secret_access_key=contract.KEY, session_token="t0ken")
    assert account.keys == want
    assert contract.KEY not in repr(account)
    assert "t0ken" not in repr(account)


def test_without_a_secret_the_runtimes_role_is_used() -> None:
    assert sqs.keys_of(None) is None


def test_a_secret_without_the_access_key_id_is_an_error_that_names_it() -> None:
    with pytest.raises(port.QueueError, match="AccessKeyId"):
        sqs.keys_of({"ApiKey": b"x"})


def of_code(code: str, status: int) -> botocore_errors.ClientError:
    response: Any = {"Error": {"Code": code, "Message": contract.KEY}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return botocore_errors.ClientError(response, "GetQueueAttributes")


@pytest.mark.parametrize(
    ("error", "want"),
    [
        (of_code("AWS.SimpleQueueService.NonExistentQueue", 400), port.Reason.NOT_FOUND),
        (of_code("AccessDenied", 400), port.Reason.UNAUTHORIZED),
        (of_code("InvalidClientTokenId", 403), port.Reason.UNAUTHORIZED),
        (of_code("ThrottlingException", 400), port.Reason.FAILED),
        (of_code("InternalError", 500), port.Reason.FAILED),
        (botocore_errors.NoCredentialsError(), port.Reason.UNAUTHORIZED),
        (botocore_errors.ConnectTimeoutError(endpoint_url="x"), port.Reason.TIMEOUT),
        (botocore_errors.ReadTimeoutError(endpoint_url="x"), port.Reason.TIMEOUT),
        (botocore_errors.SSLError(endpoint_url="x", error=OSError("y")), port.Reason.UNTRUSTED),
        (botocore_errors.EndpointConnectionError(endpoint_url="x"), port.Reason.UNREACHABLE),
        (botocore_errors.ConnectionClosedError(endpoint_url="x"), port.Reason.UNREACHABLE),
        (ValueError("bad endpoint"), port.Reason.FAILED),
    ],
)
def test_errors_have_reasons(error: Exception, want: port.Reason) -> None:
    got = sqs.translated(error, contract.FAKE_QUEUE)
    assert got.reason is want
    assert contract.FAKE_QUEUE in got.message
    assert contract.KEY not in got.message


def test_a_reader_without_clients_closes() -> None:
    asyncio.run(sqs.Sqs().aclose())
