"""Keys of a stack's file outside `sluice:`: those that nobody would read are refused, not lost. Pure."""

import difflib
from collections.abc import Iterable, Iterator
from typing import Final

from components.config import problems as words
from components.config.base import Problem, absent

REGION_KEY: Final = "aws:region"
_CUTOFF: Final = 0.7
"""How much a namespace is like ours before it is taken for a slip: sluise, slice, Sluice."""
_INSTEAD: Final = {
    "aws:profile": "give sluice:aws.profile",
    "aws:assumeRole": "give sluice:aws.assumeRole",
    "aws:assumeRoles": "give sluice:aws.assumeRole",
    "aws:defaultTags": "give sluice:tags",
    "aws:allowedAccountIds": "sluice:accountId says the same",
    "kubernetes:context": "give existing.context of the cluster",
    "kubernetes:kubeconfig": "give existing.kubeconfig of the cluster",
}


def whole(key: str) -> str:
    """Write a key with its namespace: one without is the project's own, which is ours."""
    return key if ":" in key else f"{words.NAMESPACE}:{key}"


def problems(keys: Iterable[str]) -> Iterator[Problem]:
    """Refuse keys that are a slip of ours, and those of providers that the program makes itself."""
    for key in sorted(keys):
        namespace, _, name = key.partition(":")
        if namespace in {"aws", "kubernetes"} and key != REGION_KEY:
            told = _INSTEAD.get(key, "leave it out")
            yield absent(key, message=f"would be ignored, since the program makes its own providers: {told}")
        elif namespace != words.NAMESPACE and _is_slip(namespace):
            yield absent(key, message=f"would be ignored; did you mean {words.NAMESPACE}:{name}?")


def _is_slip(namespace: str) -> bool:
    return bool(difflib.get_close_matches(namespace.lower().strip(), [words.NAMESPACE], cutoff=_CUTOFF))
