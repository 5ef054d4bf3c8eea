"""The stack: what `pulumi up` makes. It reads the config, builds the components and exports; it must not calculate."""

import pulumi
import pulumi_aws as aws

from autoscaler.api import version
from components import loading, place, site
from components.access import pull_requests
from components.config import reading
from components.nodes import grid, leaving_groups, machine_image

loaded = loading.load(reading.of_program())
stack, config = loaded.stack, loaded.stack.config

pulumi.log.info(grid.markdown({stack.cluster_name(key): made for key, made in loaded.grids.items()}))
leaving = leaving_groups.warnings(leaving_groups.leaving(loaded.group_names), undrained=loaded.foreign_scaled)
for warning in (*loaded.warnings, *leaving):
    pulumi.log.warn(warning)

account = aws.Provider(
    "aws",
    region=stack.region,
    profile=config.aws.profile,
    assume_roles=[aws.ProviderAssumeRoleArgs(role_arn=role)] if (role := config.aws.assume_role) else None,
    allowed_account_ids=[config.account_id],
    default_tags=aws.ProviderDefaultTagsArgs(tags={**config.tags, place.STACK_TAG: stack.name}),
)
in_account = pulumi.ResourceOptions(providers=[account])

images = {
    name: machine_image.MachineImage(
        name, machine_image.MachineImageArgs(stack=stack, image_name=name, config=image), in_account
    )
    for name, image in config.machine_images.items()
}
sites = {
    key: site.Site(
        key,
        site.SiteArgs(
            loaded=loaded, key=key, image_parameters={name: image.image_parameter for name, image in images.items()}
        ),
        in_account,
    )
    for key in config.clusters
}
if config.pull_requests is not None:
    previews = pull_requests.PullRequestRole(
        "previews", pull_requests.PullRequestRoleArgs(stack=stack, config=config.pull_requests), in_account
    )
    pulumi.export("previewRoleArn", previews.role_arn)

pulumi.export("version", version.VERSION)
pulumi.export("clusters", {key: made.outputs for key, made in sites.items()})
