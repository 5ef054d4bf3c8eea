"""Where the tests' clusters are."""

from collections.abc import Mapping

from components.place import Place
from tests.components import configs

CLUSTER = "test-bench"
OWNED = {f"kubernetes.io/cluster/{CLUSTER}": "owned"}


def place(
    *,
    cluster: str = CLUSTER,
    partition: str = "aws",
    region: str = configs.REGION,
    tags: Mapping[str, str] | None = None,
) -> Place:
    """A cluster's place; `test` is the stack."""
    return Place(
        stack="test",
        account=configs.ACCOUNT,
        partition=partition,
        region=region,
        cluster=cluster,
        tags=dict(tags or {}),
    )
