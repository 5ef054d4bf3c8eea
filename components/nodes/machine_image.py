"""A pipeline of Image Builder that makes Debian images for pools, and the parameter that names the newest one.

Nothing is built during `up`: the pipeline runs on its schedule, or when somebody starts it. Until its first run the
parameter names the base image, whose instances never become nodes. Recipes cannot be changed, so each is named after
what is in it; a change makes a new one beside the old.
"""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pulumi
import pulumi_aws as aws

from components.access import policies
from components.config.reading import Stack
from components.config.stack import MachineImage as MachineImageConfig
from components.nodes import image_recipe
from components.nodes.node_group import ROOT_DEVICE
from components.place import STACK_TAG

PARAMETER_PREFIX: Final = "/imagebuilder/sluice"
"""Image Builder's own role may write parameters under /imagebuilder/ and no others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineImageArgs:
    """Which images; they are built in the account's default network."""

    stack: Stack
    image_name: str
    config: MachineImageConfig


class MachineImage(pulumi.ComponentResource):
    """A pipeline and its parameter."""

    def __init__(self, name: str, args: MachineImageArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("sluice:index:MachineImage", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        config, full_name = args.config, f"{args.stack.name}-{args.image_name}"
        parameter = aws.ssm.Parameter(
            name,
            name=parameter_name(args.stack.name, args.image_name),
            type="String",
            data_type="aws:ec2:image",
            value=config.base_image_id,
            opts=pulumi.ResourceOptions(parent=self, ignore_changes=["value"]),  # the pipeline writes it
        )
        self.pipeline = aws.imagebuilder.ImagePipeline(
            name,
            name=full_name,
            image_recipe_arn=self._recipe(name, args, full_name).arn,
            infrastructure_configuration_arn=self._infrastructure(name, args, full_name).arn,
            distribution_configuration_arn=aws.imagebuilder.DistributionConfiguration(
                name, name=full_name, distributions=[_distribution(args, full_name, parameter)], opts=child
            ).arn,
            enhanced_image_metadata_enabled=False,
            image_tests_configuration=aws.imagebuilder.ImagePipelineImageTestsConfigurationArgs(
                image_tests_enabled=False  # the recipe checks the image before it is kept
            ),
            schedule=_schedule(config.schedule),
            opts=child,
        )
        self.image_parameter: pulumi.Output[str] = parameter.name
        self.register_outputs({"imageParameter": parameter.name, "pipelineArn": self.pipeline.arn})

    def _recipe(self, name: str, args: MachineImageArgs, full_name: str) -> aws.imagebuilder.ImageRecipe:
        config = args.config
        version = image_recipe.kubernetes_version(args.stack.config, args.image_name)
        document = image_recipe.document(config, kubernetes_version=version)
        start = image_recipe.user_data(args.stack.region)
        unique = f"{full_name}-{image_recipe.digest(document, start, config.base_image_id, config.version)}"
        child = pulumi.ResourceOptions(parent=self)
        component = aws.imagebuilder.Component(
            name, name=unique, version=config.version, platform="Linux", data=document, opts=child
        )
        return aws.imagebuilder.ImageRecipe(
            name,
            name=unique,
            version=config.version,
            parent_image=config.base_image_id,
            components=[aws.imagebuilder.ImageRecipeComponentArgs(component_arn=component.arn)],
            block_device_mappings=[_disk()],
            user_data_base64=base64.b64encode(start.encode()).decode(),
            systems_manager_agent=aws.imagebuilder.ImageRecipeSystemsManagerAgentArgs(uninstall_after_build=True),
            opts=child,
        )

    def _infrastructure(
        self, name: str, args: MachineImageArgs, full_name: str
    ) -> aws.imagebuilder.InfrastructureConfiguration:
        profile, rights = self._profile(name, args.stack.partition)
        return aws.imagebuilder.InfrastructureConfiguration(
            name,
            name=full_name,
            instance_profile_name=profile.name,
            instance_types=[args.config.instance_type],
            instance_metadata_options=aws.imagebuilder.InfrastructureConfigurationInstanceMetadataOptionsArgs(
                http_tokens="required", http_put_response_hop_limit=1
            ),
            terminate_instance_on_failure=True,
            opts=pulumi.ResourceOptions(parent=self, depends_on=rights),
        )

    def _profile(self, name: str, partition: str) -> tuple[aws.iam.InstanceProfile, Sequence[pulumi.Resource]]:
        child = pulumi.ResourceOptions(parent=self)
        trust = json.dumps(policies.instance_trust(partition=partition))
        role = aws.iam.Role(name, assume_role_policy=trust, opts=child)
        rights = [
            aws.iam.RolePolicyAttachment(
                f"{name}.{policy.name.lower()}", role=role.name, policy_arn=policy.arn(partition), opts=child
            )
            for policy in policies.IMAGE_BUILD
        ]
        return aws.iam.InstanceProfile(name, role=role.name, opts=child), rights


def parameter_name(stack: str, image: str) -> str:
    """Name the parameter that holds the id of the newest image."""
    return f"{PARAMETER_PREFIX}/{stack}/{image}"


def _disk() -> aws.imagebuilder.ImageRecipeBlockDeviceMappingArgs:
    return aws.imagebuilder.ImageRecipeBlockDeviceMappingArgs(
        device_name=ROOT_DEVICE,
        ebs=aws.imagebuilder.ImageRecipeBlockDeviceMappingEbsArgs(
            encrypted="true", delete_on_termination="true", volume_type="gp3", volume_size=image_recipe.ROOT_GIB
        ),
    )


def _distribution(
    args: MachineImageArgs, full_name: str, parameter: aws.ssm.Parameter
) -> aws.imagebuilder.DistributionConfigurationDistributionArgs:
    return aws.imagebuilder.DistributionConfigurationDistributionArgs(
        region=args.stack.region,
        ami_distribution_configuration=(
            aws.imagebuilder.DistributionConfigurationDistributionAmiDistributionConfigurationArgs(
                name=f"{full_name}-{{{{ imagebuilder:buildDate }}}}",
                ami_tags={**args.stack.config.tags, STACK_TAG: args.stack.name, "Name": full_name},
            )
        ),
        ssm_parameter_configurations=[
            aws.imagebuilder.DistributionConfigurationDistributionSsmParameterConfigurationArgs(
                parameter_name=parameter.name, data_type="aws:ec2:image"
            )
        ],
    )


def _schedule(expression: str | None) -> aws.imagebuilder.ImagePipelineScheduleArgs | None:
    if expression is None:
        return None
    return aws.imagebuilder.ImagePipelineScheduleArgs(
        schedule_expression=expression, pipeline_execution_start_condition="EXPRESSION_MATCH_ONLY"
    )
