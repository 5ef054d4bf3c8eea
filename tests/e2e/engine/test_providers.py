"""The stand-in providers do what the real ones were seen to do, under the real engine, on real servers."""

import json
import secrets
from typing import Any

import boto3
import pytest

from tests.e2e import groups
from tests.e2e.engine.conftest import Trial
from tools.engine.engine import EngineError
from tools.local.components import CREDENTIALS
from tools.local.plane import Plane

DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: things.{group}}}
spec:
  group: {group}
  scope: Cluster
  names: {{plural: things, singular: thing, kind: Thing}}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema: {{type: object, properties: {{spec: {{type: object, properties: {{size: {{type: integer}}}}}}}}}}
"""
OBJECTS = """
    import pulumi
    import pulumi_kubernetes as k8s
    import yaml

    body = yaml.safe_load({definition!r})
    definition = k8s.apiextensions.v1.CustomResourceDefinition("things", metadata=body["metadata"], spec=body["spec"])
    k8s.apiextensions.CustomResource(
        "thing",
        api_version="{group}/v1",
        kind="Thing",
        metadata={{"name": "thing"}},
        spec={{"size": {size}}},
        opts=pulumi.ResourceOptions(depends_on=[definition]),
    )
    config = k8s.core.v1.ConfigMap("config", metadata={{"namespace": "{namespace}"}}, data={{"size": "{size}"}})
    k8s.apps.v1.Deployment(
        "web",
        metadata={{"namespace": "{namespace}", "name": "web"}},
        spec={{
            "replicas": 1,
            "selector": {{"matchLabels": {{"app": "web"}}}},
            "template": {{
                "metadata": {{"labels": {{"app": "web", "size": "{size}"}}}},
                "spec": {{
                    "nodeSelector": {{"group": "{nodes}"}},
                    "containers": [{{"name": "web", "image": "web", "resources": {{"requests": {{"cpu": "0.1"}}}}}}],
                }},
            }},
        }},
    )
    pulumi.export("config", config.metadata.name)
"""


def test_objects_live_through_up_change_refresh_and_destroy(
    trial: Trial, plane: Plane, namespace: str, group: groups.NodeGroup
) -> None:
    group.set_desired(1)
    group.wait_for_nodes(1)
    api_group = f"g{secrets.token_hex(4)}.dev"
    facts = {
        "group": api_group,
        "namespace": namespace,
        "nodes": group.name,
        "definition": DEFINITION.format(group=api_group),
    }

    made = trial.up(OBJECTS.format(size=1, **facts))
    assert {step.operation for step in made.steps.values()} == {"create"}
    deployment = plane.api.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/web")
    assert deployment["status"]["availableReplicas"] == 1  # the engine waited for it
    name = trial.engine.outputs(trial.stack)["config"]
    assert plane.api.get(f"/api/v1/namespaces/{namespace}/configmaps/{name}")["data"] == {"size": "1"}
    assert trial.refresh().changes == ()  # `0.1` of the program is `100m` of the server
    assert trial.up(OBJECTS.format(size=1, **facts)).changes == ()

    changed = trial.up(OBJECTS.format(size=2, **facts))
    assert {step.name: step.operation for step in changed.changes} == {
        "config": "replace",
        "thing": "update",
        "web": "update",
    }
    assert changed.step("config").replacing == ("data",)
    assert changed.step("thing").changed == ("spec.size",)
    assert plane.api.get(f"/apis/{api_group}/v1/things/thing")["spec"] == {"size": 2}
    successor = trial.engine.outputs(trial.stack)["config"]
    assert plane.api.get(f"/api/v1/namespaces/{namespace}/configmaps/{successor}")["data"] == {"size": "2"}
    assert plane.api.request("GET", f"/api/v1/namespaces/{namespace}/configmaps/{name}").status == 404

    trial.destroy()
    assert plane.api.request("GET", f"/apis/apps/v1/namespaces/{namespace}/deployments/web").status == 404
    assert plane.api.request("GET", f"/apis/{api_group}/v1/things").status == 404


def test_what_is_already_there_is_an_error_unless_the_provider_upserts(
    trial: Trial, plane: Plane, namespace: str
) -> None:
    api_group = f"g{secrets.token_hex(4)}.dev"
    definition = DEFINITION.format(group=api_group)
    plane.kubectl("create", "-f", "-", stdin=definition)
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    plane.api.create(path, {"metadata": {"name": "mine"}, "data": {"kept": "yes"}})
    program = f"""
        import pulumi
        import pulumi_kubernetes as k8s
        import yaml

        upserting = k8s.Provider("upserting", upsert_existing_objects=True, enable_patch_force=True)
        body = yaml.safe_load({definition!r})
        body["metadata"]["labels"] = {{"ours": "yes"}}
        body["spec"]["names"]["shortNames"] = []
        k8s.apiextensions.v1.CustomResourceDefinition(
            "things",
            metadata=body["metadata"],
            spec=body["spec"],
            opts=pulumi.ResourceOptions(provider=upserting, retain_on_delete=True),
        )
        k8s.core.v1.ConfigMap("mine", metadata={{"namespace": "{namespace}", "name": "mine"}}, data={{"a": "b"}})
    """
    assert trial.preview(program).step("mine").operation == "create"
    with pytest.raises(EngineError, match='"mine" already exists'):
        trial.up(program, "--continue-on-error")

    upserted = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.{api_group}"
    assert plane.api.get(upserted)["metadata"]["labels"] == {"ours": "yes"}
    assert plane.api.get(f"{path}/mine")["data"] == {"kept": "yes"}
    (change,) = trial.refresh().changes  # an empty list that the server has dropped differs for ever
    assert (change.name, change.changed) == ("things", ("spec.names.shortNames",))
    trial.destroy()
    assert plane.api.get(upserted)  # retained
    plane.api.delete(upserted)


SHARED = """
    import pulumi
    import pulumi_kubernetes as k8s

    k8s.core.v1.ConfigMap(
        "shared",
        metadata={{"namespace": "{namespace}", "name": "shared", "labels": {{"size": "{size}", "own": "{own}"}}}},
        opts=pulumi.ResourceOptions(ignore_changes={ignored}),
    )
    k8s.core.v1.ConfigMapPatch(
        "patch",
        metadata={{
            "namespace": "{namespace}",
            "name": "theirs",
            "labels": {{"ours": "{own}"}},
            "annotations": {{"pulumi.com/patchForce": "true"}},
        }},
    )
"""


def test_a_field_of_another_manager_is_a_conflict_and_may_be_ignored(
    trial: Trial, plane: Plane, namespace: str
) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    plane.api.create(path, {"metadata": {"name": "theirs", "labels": {"ours": "no", "theirs": "yes"}}})
    trial.up(SHARED.format(namespace=namespace, size=1, own="a", ignored=[]))
    assert plane.api.get(f"{path}/theirs")["metadata"]["labels"] == {"ours": "a", "theirs": "yes"}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"labels": {"size": "5"}}}
    plane.api.request(
        "PATCH",
        f"{path}/shared",
        body,
        content_type="application/apply-patch+yaml",
        query={"fieldManager": "the-other", "force": "true"},
    ).required()

    with pytest.raises(EngineError, match=r'\.metadata\.labels\.size \(conflict with "the-other"'):
        trial.up(SHARED.format(namespace=namespace, size=2, own="a", ignored=[]))
    assert plane.api.get(f"{path}/shared")["metadata"]["labels"]["size"] == "5"

    trial.up(SHARED.format(namespace=namespace, size=2, own="b", ignored=["metadata.labels.size"]))
    assert plane.api.get(f"{path}/shared")["metadata"]["labels"] == {"size": "5", "own": "b"}
    assert plane.api.get(f"{path}/theirs")["metadata"]["labels"] == {"ours": "b", "theirs": "yes"}

    trial.destroy()
    assert plane.api.request("GET", f"{path}/shared").status == 404
    assert plane.api.get(f"{path}/theirs")["metadata"]["labels"] == {"theirs": "yes"}


CLOUD = """
    import base64
    import json

    import pulumi
    import pulumi_aws as aws
    import pulumi_kubernetes as k8s

    provider = aws.Provider("aws", region="{region}", default_tags={{"tags": {{"team": "bench"}}}})
    opts = pulumi.ResourceOptions(provider=provider)
    network = aws.ec2.Vpc("network", cidr_block="10.9.0.0/16", opts=opts)
    subnet = aws.ec2.Subnet(
        "subnet", vpc_id=network.id, cidr_block="10.9.0.0/24", availability_zone="{region}a", opts=opts
    )
    trust = {{"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {{"Service": "ec2.amazonaws.com"}}}}
    role = aws.iam.Role(
        "{name}",
        name="{name}",
        assume_role_policy=json.dumps({{"Version": "2012-10-17", "Statement": [trust]}}),
        opts=opts,
    )
    policy = "arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy"
    aws.iam.RolePolicyAttachment("cni", role=role.name, policy_arn=policy, opts=opts)
    template = aws.ec2.LaunchTemplate(
        "template",
        image_id="resolve:ssm:/aws/service/eks/image",
        instance_type="p3.8xlarge",
        user_data=base64.b64encode(b"{data}").decode(),
        update_default_version=True,
        opts=opts,
    )
    aws.autoscaling.Group(
        "{name}",
        name="{name}",
        min_size=0,
        max_size={largest},
        vpc_zone_identifiers=[subnet.id],
        launch_template={{"id": template.id, "version": template.latest_version.apply(str)}},
        protect_from_scale_in=True,
        force_delete=True,
        tags=[{{"key": "k8s.io/cluster-autoscaler/enabled", "value": "true", "propagate_at_launch": False}}],
        opts=pulumi.ResourceOptions(provider=provider, ignore_changes=["desiredCapacity"]),
    )
    aws.sqs.Queue("{name}", name="{name}", message_retention_seconds=300, opts=opts)
    cluster = aws.eks.Cluster(
        "cluster", name="{name}", role_arn=role.arn, vpc_config={{"subnet_ids": [subnet.id]}}, opts=opts
    )

    def kubeconfig(facts):
        endpoint, authority, name = facts
        command = {{"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "aws", "interactiveMode": "Never"}}
        command["args"] = ["--region", "{region}", "eks", "get-token", "--cluster-name", name, "--output", "json"]
        at = {{"server": endpoint, "certificate-authority-data": authority["data"]}}
        return json.dumps(
            {{
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{{"name": "c", "cluster": at}}],
                "users": [{{"name": "u", "user": {{"exec": command}}}}],
                "contexts": [{{"name": "c", "context": {{"cluster": "c", "user": "u"}}}}],
                "current-context": "c",
            }}
        )

    text = pulumi.Output.all(cluster.endpoint, cluster.certificate_authority, cluster.name).apply(kubeconfig)
    inside = k8s.Provider("inside", kubeconfig=text)
    k8s.core.v1.ConfigMap(
        "inside",
        metadata={{"namespace": "{namespace}"}},
        data={{"a": "b"}},
        opts=pulumi.ResourceOptions(provider=inside),
    )
    pulumi.export("latest", template.latest_version)
"""


def test_desired_capacity_belongs_to_whoever_moves_it(trial: Trial, plane: Plane, namespace: str) -> None:
    name = f"trial-{secrets.token_hex(4)}"
    facts = {"name": name, "namespace": namespace, "region": plane.region}
    autoscaling, ec2, iam, sqs = (client(plane, service) for service in ("autoscaling", "ec2", "iam", "sqs"))

    foreseen = trial.preview(CLOUD.format(data="one", largest=3, **facts))
    assert len(foreseen.of("create")) == len(foreseen.steps)
    assert trial.engine.journal() == ()  # a preview does nothing

    trial.up(CLOUD.format(data="one", largest=3, **facts))
    group = described(autoscaling, name)
    assert (group["MinSize"], group["DesiredCapacity"], group["MaxSize"]) == (0, 0, 3)
    assert group["NewInstancesProtectedFromScaleIn"]
    assert {tag["Key"]: tag["Value"] for tag in iam.get_role(RoleName=name)["Role"]["Tags"]} == {"team": "bench"}

    autoscaling.set_desired_capacity(AutoScalingGroupName=name, DesiredCapacity=2)
    assert trial.refresh().changes == ()  # nothing that the program manages
    [known] = [each for each in trial.engine.resources(trial.stack) if each["type"] == "aws:autoscaling/group:Group"]
    assert (known["outputs"]["desiredCapacity"], "desiredCapacity" in known["inputs"]) == (2, False)
    changed = trial.up(CLOUD.format(data="two", largest=5, **facts))
    assert {step.type for step in changed.changes} == {
        "aws:autoscaling/group:Group",
        "aws:ec2/launchTemplate:LaunchTemplate",
    }
    group = described(autoscaling, name)
    assert (group["DesiredCapacity"], group["MaxSize"], group["LaunchTemplate"]["Version"]) == (2, 5, "2")
    assert trial.engine.outputs(trial.stack) == {"latest": 2}
    sent = [call for entry in trial.engine.journal() for call in entry.calls if "auto_scaling_group(" in call]
    assert [call for call in sent if "DesiredCapacity" in call] == []
    assert sent[-1] == "autoscaling:update_auto_scaling_group(AutoScalingGroupName, LaunchTemplate, MaxSize)"

    members = [member["InstanceId"] for member in group["Instances"]]
    trial.destroy()
    assert autoscaling.describe_auto_scaling_groups(AutoScalingGroupNames=[name])["AutoScalingGroups"] == []
    reservations = ec2.describe_instances(InstanceIds=members)["Reservations"]
    assert {one["State"]["Name"] for each in reservations for one in each["Instances"]} == {"terminated"}
    assert name not in [role["RoleName"] for role in iam.list_roles()["Roles"]]
    assert "QueueUrls" not in sqs.list_queues(QueueNamePrefix=name)
    assert list((trial.engine.layout.recorded / "aws").iterdir()) == []


TROUBLE = """
    import pulumi
    import pulumi_aws as aws
    import pulumi_kubernetes as k8s

    password = pulumi.Config().require_secret("password")
    secret = k8s.core.v1.Secret("secret", metadata={{"namespace": "{namespace}"}}, string_data={{"password": password}})
    aws.ssm.Parameter("parameter", name="/{namespace}", type="SecureString", value=password)
    k8s.core.v1.ConfigMap(
        "held",
        metadata={{"namespace": "{namespace}", "name": "held", "finalizers": ["sluice.dev/held"]}},
        opts=pulumi.ResourceOptions(custom_timeouts=pulumi.CustomTimeouts(delete="1s")),
    )
    k8s.apps.v1.Deployment(
        "web",
        metadata={{"namespace": "{namespace}", "name": "web"}},
        spec={{
            "replicas": {replicas},
            "selector": {{"matchLabels": {{"app": "web"}}}},
            "template": {{
                "metadata": {{"labels": {{"app": "web"}}}},
                "spec": {{"nodeSelector": {{"nowhere": "yes"}}, "containers": [{{"name": "web", "image": "web"}}]}},
            }},
        }},
        opts=pulumi.ResourceOptions(custom_timeouts=pulumi.CustomTimeouts(create="1s", update="20s")),
    )
    pulumi.export("password", password)
"""


def test_trouble_half_way_is_told_and_mended_and_secrets_stay_secret(
    trial: Trial, plane: Plane, namespace: str
) -> None:
    password = secrets.token_urlsafe(16)
    engine = trial.engine
    engine.set_secret(trial.stack, "password", password)
    engine.fail_once(type="aws:ssm/*", name="parameter")

    with pytest.raises(EngineError) as failure:
        trial.up(TROUBLE.format(namespace=namespace, replicas=1), "--continue-on-error")
    assert {urn.rpartition("::")[2] for urn in failure.value.result.failed} == {"parameter", "web"}
    assert "0 of 1 pods are available after 1 s" in failure.value.result.diagnostics
    assert "web" in {resource["urn"].rpartition("::")[2] for resource in engine.resources(trial.stack)}

    mended = trial.up(TROUBLE.format(namespace=namespace, replicas=0))
    assert {step.name: step.operation for step in mended.changes} == {"parameter": "create", "web": "update"}

    assert engine.outputs(trial.stack) == {"password": "[secret]"}
    assert engine.outputs(trial.stack, show_secrets=True) == {"password": password}
    told = [failure.value.result.output, mended.output, json.dumps(engine.state(trial.stack))]
    kept = [path for path in engine.layout.root.rglob("*.json*") if path.is_file()]
    assert engine.layout.journal in kept
    assert not [text for text in (*told, *(path.read_text() for path in kept)) if password in text]

    with pytest.raises(EngineError, match=r"held by the finalizers \['sluice.dev/held'\] after 1 s"):
        trial.destroy()
    held = f"/api/v1/namespaces/{namespace}/configmaps/held"
    plane.api.merge(held, {"metadata": {"finalizers": None}})
    trial.destroy()
    assert engine.resources(trial.stack) == []


def described(autoscaling: Any, name: str) -> dict[str, Any]:
    [group] = autoscaling.describe_auto_scaling_groups(AutoScalingGroupNames=[name])["AutoScalingGroups"]
    found: dict[str, Any] = group
    return found


def client(plane: Plane, service: str) -> Any:
    session = boto3.Session(
        aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        region_name=plane.region,
    )
    return session.client(service, endpoint_url=plane.aws_endpoint)  # type: ignore[call-overload]
