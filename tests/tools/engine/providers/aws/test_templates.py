"""Launch templates: an image that moto knows, and a version for each change."""

from typing import Any

import pytest

from tests.tools.engine import builders
from tests.tools.engine.providers.aws import fakes
from tools.engine.providers.aws import templates
from tools.local import groups

LIVE = {
    "LaunchTemplateId": "lt-1",
    "LaunchTemplateName": "t",
    "LatestVersionNumber": 2,
    "DefaultVersionNumber": 1,
}
INPUTS: dict[str, Any] = {"name": "t", "imageId": "resolve:ssm:/x", "instanceType": "p3.8xlarge", "userData": "eA=="}


def aws() -> fakes.FakeCloud:
    return fakes.FakeCloud(
        {
            "create_launch_template": {"LaunchTemplate": LIVE},
            "create_launch_template_version": {"LaunchTemplateVersion": {"VersionNumber": 2}},
            "describe_launch_templates": {"LaunchTemplates": [LIVE]},
        }
    )


def test_moto_gets_its_own_image_and_the_state_the_programs() -> None:
    cloud = aws()
    state = templates.create(cloud, builders.create(templates.TYPE, INPUTS))
    sent = cloud.writes[0][1]["LaunchTemplateData"]
    assert templates.IMAGE == groups.IMAGE  # the one that the registrar's groups use
    assert sent == {"ImageId": templates.IMAGE, "InstanceType": "p3.8xlarge", "UserData": "eA=="}
    assert (state.id, state.outputs["imageId"], state.outputs["latestVersion"]) == ("lt-1", "resolve:ssm:/x", 2)


@pytest.mark.parametrize(
    ("change", "want"),
    [
        ({"userData": "eQ=="}, ["create_launch_template_version"]),
        (
            {"userData": "eQ==", "updateDefaultVersion": True},
            ["create_launch_template_version", "modify_launch_template"],
        ),
        ({"tags": {"a": "b"}}, ["create_tags"]),
        ({"updateDefaultVersion": True}, []),
    ],
)
def test_what_instances_are_made_of_makes_a_version(change: dict[str, Any], want: list[str]) -> None:
    cloud = aws()
    asked = builders.update(templates.TYPE, INPUTS, INPUTS | change)
    templates.update(cloud, asked)
    assert [name for name, _ in cloud.writes] == want
    assert templates.makes_version(asked) is ("create_launch_template_version" in want)
