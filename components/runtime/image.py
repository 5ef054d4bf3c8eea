"""The runtime's image: given by the config, or built from this checkout and kept in a repository of the cluster's own.

The tag is a digest of everything that goes into the image, so that an unchanged checkout builds nothing, and what runs
is named by the digest that the registry gave. A preview never builds. Whoever runs `pulumi up` must be logged in to the
registry before, by docker's credential helper for ECR or by `docker login`: asking AWS for a password here would be a
look-up, and would put it into the state.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pulumi
import pulumi_aws as aws
import pulumi_docker_build as docker_build

from autoscaler.api import version
from components.config.autoscaler import Image
from components.place import Place

ROOT: Final = Path(__file__).parents[2]
SOURCES: Final = "autoscaler"
"""All that goes in, with the Dockerfile; .dockerignore keeps everything else out."""
LEFT_OUT: Final = ("autoscaler/simulate", "autoscaler/simulation")
"""What the runtime never imports: a change there must not roll the Deployment. .dockerignore names the same."""
KEPT_IMAGES: Final = 10
UNTAGGED_DAYS: Final = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageArgs:
    """Which image, and where it is kept."""

    place: Place
    config: Image
    platforms: Sequence[str] = ("linux/amd64",)
    """Those of the nodes that the runtime may run on; each takes a build of its own."""
    root: Path = ROOT
    """The checkout to build from."""


class RuntimeImage(pulumi.ComponentResource):
    """The image's reference, and whatever must be made to have it."""

    reference: pulumi.Output[str]

    def __init__(self, name: str, args: ImageArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("sluice:index:RuntimeImage", name, None, opts)
        if args.config.repository is not None:
            self.reference = pulumi.Output.from_input(given(args.config.repository, args.config))
        else:
            self.reference = self._built(name, args)
        self.register_outputs({"reference": self.reference})

    def _built(self, name: str, args: ImageArgs) -> pulumi.Output[str]:
        child = pulumi.ResourceOptions(parent=self)
        repository = aws.ecr.Repository(
            name,
            name=repository_name(args.place.cluster),
            image_tag_mutability="MUTABLE",  # a rebuilt image has the same tag; pods run by digest
            image_scanning_configuration=aws.ecr.RepositoryImageScanningConfigurationArgs(scan_on_push=True),
            encryption_configurations=[aws.ecr.RepositoryEncryptionConfigurationArgs(encryption_type="AES256")],
            force_delete=True,
            tags=args.place.owned,
            opts=child,
        )
        aws.ecr.LifecyclePolicy(name, repository=repository.name, policy=lifecycle(), opts=child)
        image = docker_build.Image(
            name,
            tags=[pulumi.Output.concat(repository.repository_url, ":", content_digest(args.root))],
            context=docker_build.BuildContextArgs(location="."),  # not absolute: every computer would see a change
            dockerfile=docker_build.DockerfileArgs(location=f"{SOURCES}/Dockerfile"),
            platforms=[docker_build.Platform(one) for one in args.platforms],
            push=True,
            build_on_preview=False,
            opts=child,
        )
        return image.ref


def given(repository: str, config: Image) -> str:
    """Write the reference of an image that is there: by digest if it has one, else by tag."""
    if config.digest is not None:
        return f"{repository}@{config.digest}"
    return f"{repository}:{config.tag or version.VERSION}"


def repository_name(cluster: str) -> str:
    """Name the repository; ECR allows less than EKS does."""
    return f"{re.sub(r'[^a-z0-9]+', '-', cluster.lower()).strip('-')}/sluice"


def content_digest(root: Path) -> str:
    """Tell by sixteen digits what goes into the image: names and contents, not times and owners."""
    found = hashlib.sha256()
    for path in sorted(sources(root)):
        content = (root / path).read_bytes()
        found.update(f"{path}\0{len(content)}\0".encode())
        found.update(content)
    return found.hexdigest()[:16]


def sources(root: Path) -> Iterator[str]:
    """List the files that go into the image, from the root on."""
    left_out = tuple(root / one for one in LEFT_OUT)
    for path in (root / SOURCES).rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts and not any(map(path.is_relative_to, left_out)):
            yield path.relative_to(root).as_posix()


def lifecycle() -> str:
    """Keep the newest images; parts of an image for several platforms have no tag, and stay as long as it does."""
    rules = [
        {"tagStatus": "tagged", "tagPatternList": ["*"], "countType": "imageCountMoreThan", "countNumber": KEPT_IMAGES},
        {
            "tagStatus": "untagged",
            "countType": "sinceImagePushed",
            "countUnit": "days",
            "countNumber": UNTAGGED_DAYS,
        },
    ]
    return json.dumps(
        {
            "rules": [
                {"rulePriority": priority, "selection": selection, "action": {"type": "expire"}}
                for priority, selection in enumerate(rules, start=1)
            ]
        }
    )
