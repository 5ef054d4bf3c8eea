import json

import pytest

from components.eks import kubeconfigs


@pytest.mark.accept("S10")
def test_a_kubeconfig_asks_aws_for_its_token() -> None:
    text = kubeconfigs.of_eks(
        cluster="c", region="eu-west-1", endpoint="https://c.example", certificate_authority="Q0E="
    )
    read = json.loads(text)
    (user,) = read["users"]
    assert set(user["user"]) == {"exec"}
    want = ["eks", "get-token", "--cluster-name", "c", "--region", "eu-west-1", "--output", "json"]
    assert user["user"]["exec"]["args"] == want
    assert read["clusters"] == [
        {"name": "c", "cluster": {"server": "https://c.example", "certificate-authority-data": "Q0E="}}
    ]
    assert read["current-context"] == "c"


@pytest.mark.parametrize(
    ("secret", "context", "want"),
    [
        (None, None, "kubectl config current-context"),
        (None, "a b", "kubectl config use-context 'a b'"),
        ("lab", "x", """pulumi config get --path 'sluice:secrets["lab"]' > kubeconfig"""),
    ],
)
def test_the_command_leads_to_an_existing_cluster(secret: str | None, context: str | None, want: str) -> None:
    assert kubeconfigs.existing_command(secret=secret, context=context) == want


def test_a_cluster_of_eks_is_found_by_its_name() -> None:
    assert kubeconfigs.eks_command("c", "eu-west-1") == "aws eks update-kubeconfig --name c --region eu-west-1"


KUBECONFIG = """
current-context: b
contexts:
  - {name: a, context: {cluster: one, user: me}}
  - {name: b, context: {cluster: two, user: me}}
clusters:
  - {name: one, cluster: {server: "https://me:hunter2@one.example:6443/path"}}
  - {name: two, cluster: {server: "https://[fd12::5]"}}
users: [{name: me, user: {token: hunter2}}]
"""


@pytest.mark.parametrize(
    ("text", "context", "want"),
    [
        (KUBECONFIG, None, "https://[fd12::5]"),
        (KUBECONFIG, "a", "https://one.example:6443"),
        (KUBECONFIG, "c", None),
        ("hunter2", None, None),
        ("{", None, None),
        ("", None, None),
        ("{contexts: 5, clusters: [], current-context: a}", None, None),
    ],
)
def test_the_api_server_is_taken_from_a_kubeconfig_and_nothing_else(
    text: str, context: str | None, want: str | None
) -> None:
    assert kubeconfigs.server(text, context) == want
