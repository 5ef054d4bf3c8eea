import base64
import json
from typing import Any

import pytest

from components.nodes import image_recipe, machine_image
from tests.components import configs, monitor


def run(**fields: Any) -> monitor.World:
    values = configs.values(tags={"team": "x"}, machineImages={"builder": {"baseImageId": "ami-00000009", **fields}})
    stack = configs.load(values).stack

    def program() -> dict[str, Any]:
        args = machine_image.MachineImageArgs(
            stack=stack, image_name="builder", config=stack.config.machine_images["builder"]
        )
        return {"parameter": machine_image.MachineImage("builder", args).image_parameter}

    return monitor.run(program)


@pytest.mark.accept("P18")
def test_a_pipeline_has_exactly_these_parts() -> None:
    world = run()
    assert world.types() == [
        "aws:iam/instanceProfile:InstanceProfile",
        "aws:iam/role:Role",
        *["aws:iam/rolePolicyAttachment:RolePolicyAttachment"] * 3,
        "aws:imagebuilder/component:Component",
        "aws:imagebuilder/distributionConfiguration:DistributionConfiguration",
        "aws:imagebuilder/imagePipeline:ImagePipeline",
        "aws:imagebuilder/imageRecipe:ImageRecipe",
        "aws:imagebuilder/infrastructureConfiguration:InfrastructureConfiguration",
        "aws:ssm/parameter:Parameter",
    ]
    component = world.one("sluice:index:MachineImage")
    assert all(one.parent == component.urn for one in world.made if one.custom)


@pytest.mark.accept("P18", "S2")
def test_the_newest_image_is_named_by_a_parameter_that_the_pipeline_writes() -> None:
    world = run()
    parameter = world.one(":Parameter")
    assert parameter.inputs["name"] == world.outputs["parameter"] == "/imagebuilder/sluice/test/builder"
    assert parameter.inputs["value"] == "ami-00000009"
    assert parameter.inputs["dataType"] == "aws:ec2:image"
    assert parameter.ignore_changes == ("value",)
    (distribution,) = world.one(":DistributionConfiguration").inputs["distributions"]
    assert distribution["ssmParameterConfigurations"] == [
        {"parameterName": "/imagebuilder/sluice/test/builder", "dataType": "aws:ec2:image"}
    ]
    assert distribution["region"] == "eu-west-1"
    image = distribution["amiDistributionConfiguration"]
    assert image["name"] == "test-builder-{{ imagebuilder:buildDate }}"
    assert image["amiTags"] == {"team": "x", "sluice.dev/stack": "test", "Name": "test-builder"}


def test_a_recipe_is_named_after_what_is_in_it() -> None:
    def names(**fields: Any) -> tuple[str, str]:
        world = run(**fields)
        recipe, component = world.one(":ImageRecipe").inputs, world.one(":Component").inputs
        assert recipe["components"] == [{"componentArn": "arn:aws:mock::Component/builder"}]
        return recipe["name"], component["name"]

    first = names()
    assert first == names()
    assert first[0] == first[1]
    others = [
        names(**fields)
        for fields in ({"enableTasks": ["sbuild"]}, {"baseImageId": "ami-00000008"}, {"version": "1.0.1"})
    ]
    assert len({first, *others}) == 4


def test_an_image_is_encrypted_and_keeps_no_agent() -> None:
    recipe = run().one(":ImageRecipe").inputs
    (disk,) = recipe["blockDeviceMappings"]
    assert disk["deviceName"] == "/dev/xvda"
    assert disk["ebs"]["encrypted"] == "true"
    assert disk["ebs"]["volumeType"] == "gp3"
    assert disk["ebs"]["volumeSize"] == image_recipe.ROOT_GIB
    assert recipe["systemsManagerAgent"] == {"uninstallAfterBuild": True}
    assert recipe["parentImage"] == "ami-00000009"


def test_a_build_instance_brings_the_agent_that_commands_it() -> None:
    started = base64.b64decode(run().one(":ImageRecipe").inputs["userDataBase64"]).decode()
    assert started == image_recipe.user_data("eu-west-1")


def test_a_build_has_the_rights_that_image_builder_demands() -> None:
    world = run(instanceType="m7g.large")
    made = world.one(":InfrastructureConfiguration")
    assert made.inputs["instanceTypes"] == ["m7g.large"]
    assert made.inputs["instanceMetadataOptions"] == {"httpTokens": "required", "httpPutResponseHopLimit": 1}
    assert made.inputs["terminateInstanceOnFailure"] is True
    assert "subnetId" not in made.inputs
    rights = world.of_type(":RolePolicyAttachment")
    assert {one.inputs["policyArn"].rpartition("/")[2] for one in rights} == {
        "EC2InstanceProfileForImageBuilder",
        "AmazonSSMManagedInstanceCore",
        "AmazonEC2ContainerRegistryPullOnly",
    }
    assert all(made.waits_for(one) for one in rights)
    trusted = json.loads(world.one("iam/role:Role").inputs["assumeRolePolicy"])
    assert trusted["Statement"][0]["Principal"] == {"Service": "ec2.amazonaws.com"}


@pytest.mark.parametrize("schedule", [None, "cron(0 3 ? * sun *)"])
def test_it_builds_when_told_to(schedule: str | None) -> None:
    fields: dict[str, Any] = {"schedule": schedule} if schedule else {}
    pipeline = run(**fields).one(":ImagePipeline").inputs
    want = {"scheduleExpression": schedule, "pipelineExecutionStartCondition": "EXPRESSION_MATCH_ONLY"}
    assert pipeline.get("schedule") == (want if schedule else None)
    assert pipeline["imageTestsConfiguration"] == {"imageTestsEnabled": False}
    assert pipeline["imageRecipeArn"] == "arn:aws:mock::ImageRecipe/builder"
