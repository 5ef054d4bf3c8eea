"""Whose credentials are used, and that they are never shown."""

import pytest

from autoscaler.api.resources import accounts
from autoscaler.cloud import port
from autoscaler.cloud.aws import ec2_accounts

KEY_ID, KEY = "AKIDEXAMPLE", "wJalrXUtnFEMI"
SECRET = {"accessKeyId": KEY_ID.encode(), "secretAccessKey": f"{KEY}\n".encode()}
ROLE = "arn:aws:iam::123456789012:role/scaler"


def spec(**more: object) -> accounts.ProviderAccountSpec:
    return accounts.ProviderAccountSpec.model_validate({"provider": "aws", "region": "eu-west-1", **more})


def with_secret() -> accounts.ProviderAccountSpec:
    return spec(credentials={"secretRef": {"namespace": "pools", "name": "aws"}})


def test_without_role_or_secret_the_runtime_is_itself() -> None:
    account = ec2_accounts.of_spec(spec(), {}, cluster="bench")
    assert account == ec2_accounts.Account(region="eu-west-1", session_name="sluice-bench")


def test_a_role_is_assumed_under_a_name_that_tells_the_cluster() -> None:
    account = ec2_accounts.of_spec(spec(roleArn=ROLE), {}, cluster="b" * 100)
    assert account.role_arn == ROLE
    assert account.session_name == "sluice-" + "b" * 57


def test_keys_come_from_the_secret_and_are_not_shown() -> None:
    account = ec2_accounts.of_spec(with_secret(), SECRET, cluster="bench")
    assert account.keys == ec2_accounts.AccessKeys(access_key_id=KEY_ID, secret_access_key=KEY)
    shown = f"{account!r} {account} {account.keys!r} {account.keys}"
    assert KEY not in shown
    assert KEY_ID not in shown


def test_a_secret_that_an_account_does_not_name_is_not_used() -> None:
    assert ec2_accounts.of_spec(spec(), SECRET, cluster="bench").keys is None


@pytest.mark.parametrize(
    "secret",
    [
        {},
        {"accessKeyId": KEY_ID.encode()},
        {"accessKeyId": b" ", "secretAccessKey": KEY.encode()},
        {"accessKeyId": KEY_ID.encode(), "secretAccessKey": f"{KEY}\u00e9".encode()},
    ],
)
def test_a_secret_of_no_use_is_an_error_that_names_it_and_shows_nothing(secret: dict[str, bytes]) -> None:
    with pytest.raises(port.CloudError, match="pools/aws") as caught:
        ec2_accounts.of_spec(with_secret(), secret, cluster="bench")
    assert caught.value.reason is port.Reason.DENIED
    assert KEY not in f"{caught.value}{caught.value.message}"


def test_clients_are_made_once_each_and_send_nothing_by_themselves() -> None:
    clients = ec2_accounts.Clients(ec2_accounts.of_spec(with_secret(), SECRET, cluster="bench"))
    assert clients.autoscaling is clients.autoscaling
    assert clients.autoscaling.meta.region_name == "eu-west-1"
    assert clients.autoscaling.meta.config.retries["total_max_attempts"] == 1  # type: ignore[attr-defined]
    clients.close()


def test_an_assumed_roles_credentials_are_fetched_with_the_first_call_only() -> None:
    keys = ec2_accounts.AccessKeys(access_key_id=KEY_ID, secret_access_key=KEY)
    clients = ec2_accounts.Clients(ec2_accounts.Account(region="eu-west-1", role_arn=ROLE, keys=keys))
    assert clients.sqs.meta.service_model.service_name == "sqs"  # the fast tier has no network: nothing was sent
    clients.close()
