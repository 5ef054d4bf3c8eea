"""The one version of the stack, and the group and version under which its custom resources are served."""

from typing import Final

VERSION: Final = "0.1.0"

GROUP: Final = "sluice.dev"
API_VERSION: Final = "v1alpha1"
GROUP_VERSION: Final = f"{GROUP}/{API_VERSION}"

MINIMUM_KUBERNETES: Final = (1, 36)
"""The first Kubernetes that serves MutatingAdmissionPolicy as v1."""
