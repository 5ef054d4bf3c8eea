"""The image of sleepers, the pods that hold a machine's room. What a stack tells the runtime."""

from typing import Annotated, Final

from pydantic import Field

IMAGE: Final = "registry.k8s.io/pause:3.10"
"""Does nothing until it is told to end, as user 65535."""
IMAGE_FORM: Final = r"^[a-zA-Z0-9][a-zA-Z0-9._:@/-]*$"

Image = Annotated[str, Field(max_length=512, pattern=IMAGE_FORM)]
