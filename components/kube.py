"""Kubernetes objects in a stack, from plain manifests.

The SDK would have each part as an object of its own type. A manifest is read by more than this stack, so it stays plain
data, in Kubernetes' own spelling, which the SDK takes as well.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import pulumi

R = TypeVar("R", bound=pulumi.Resource)


def make(resource: Callable[..., R], name: str, opts: pulumi.ResourceOptions, **parts: Any) -> R:  # noqa: ANN401  # plain data
    """Make an object under a logical name; its parts are metadata, spec, data and the like."""
    return resource(name, opts=opts, **parts)
