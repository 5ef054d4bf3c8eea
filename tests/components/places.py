"""Where the tests' clusters are."""

from components.place import Place
from tests.components import configs

CLUSTER = "test-bench"
OWNED = {f"kubernetes.io/cluster/{CLUSTER}": "owned"}


def place(
    *,
    cluster: str = CLUSTER,
    partition: str = "aws",
    region: str = configs.REGION,
) -> Place:
    """A cluster's place in the stack `test`."""
    return Place(
        account=configs.ACCOUNT,
        partition=partition,
        region=region,
        cluster=cluster,
    )
