"""Users of the API server that policies speak of by name, and how a list of them is written in CEL."""

from collections.abc import Iterable
from typing import Final

from autoscaler.api.resources.base import cel_string

ACCOUNT_PREFIX: Final = "system:serviceaccount:"
"""How the user names of ServiceAccounts begin."""
CONTROLLERS: Final = (
    f"{ACCOUNT_PREFIX}kube-system:namespace-controller",
    f"{ACCOUNT_PREFIX}kube-system:generic-garbage-collector",
    "system:kube-controller-manager",
)
"""Who clears away what has lost its namespace or its owner: the first two, or the last where controllers have no
identities of their own."""


def controller(name: str) -> tuple[str, ...]:
    """Name who one of Kubernetes' controllers may be: itself, or the manager of all where none has its own user."""
    return (f"{ACCOUNT_PREFIX}kube-system:{name}", "system:kube-controller-manager")


def account_user(namespace: str, service_account: str) -> str:
    """Name the user that a ServiceAccount is to the API server."""
    return f"{ACCOUNT_PREFIX}{namespace}:{service_account}"


def texts(values: Iterable[str]) -> str:
    """Write texts as a list in CEL."""
    return "[" + ", ".join(map(cel_string, values)) + "]"


def is_one_of(users: Iterable[str]) -> str:
    """Write whether the user is one of these, in CEL."""
    return f"request.userInfo.?username.orValue('') in {texts(users)}"
