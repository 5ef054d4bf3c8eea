"""Every policy of the API is made before its binding, whichever of the two kinds it is."""

import pulumi_kubernetes as k8s
import pytest

from autoscaler.api import policies, version
from autoscaler.api.policies import leaving
from autoscaler.api.policies.base import Match, MutatingPolicy, Operation
from components.objects import admission_policies
from tests.components import configs, monitor

MUTATING = MutatingPolicy(
    name="gate.sluice.dev",
    match=Match(group=version.GROUP, version="v1", resources=("jobs",), operations=(Operation.CREATE,)),
    patches=("[]",),
    twin=lambda request: request.object or {},
)


def run() -> monitor.World:
    def program() -> None:
        provider = k8s.Provider("plane")
        definition = k8s.core.v1.ServiceAccount("definition")
        args = admission_policies.AdmissionPoliciesArgs(
            provider=provider, policies=(*policies.POLICIES, MUTATING), after=[definition]
        )
        admission_policies.AdmissionPolicies("p", args)

    return monitor.run(program)


def test_every_policy_and_binding_is_made_as_the_api_says() -> None:
    made = [one for one in run().made if "AdmissionPolicy" in one.type]
    want = [manifest for policy in (*policies.POLICIES, MUTATING) for manifest in policy.manifests()]
    got = [
        {"kind": one.type.rpartition(":")[2], "metadata": one.inputs["metadata"], "spec": one.inputs["spec"]}
        for one in made
    ]
    assert sorted(got, key=str) == sorted(
        ({key: manifest[key] for key in ("kind", "metadata", "spec")} for manifest in want), key=str
    )


def test_policies_come_after_definitions_and_bindings_after_their_policies() -> None:
    world = run()
    for policy in (*policies.POLICIES, MUTATING):
        made = world.one("AdmissionPolicy", f"p.{policy.name}")
        binding = world.one("AdmissionPolicyBinding", f"p.{policy.name}.binding")
        assert binding.inputs["spec"]["policyName"] == made.inputs["metadata"]["name"]
        assert binding.waits_for(made)
        assert made.waits_for(world.one(":ServiceAccount", "definition"))
        for one in (made, binding):
            assert one.parent == world.one(":AdmissionPolicies").urn
            assert "::plane::" in one.provider


def test_the_policies_of_the_api_are_the_default() -> None:
    def program() -> None:
        args = admission_policies.AdmissionPoliciesArgs(provider=k8s.Provider("plane"))
        admission_policies.AdmissionPolicies("p", args)

    made = [one for one in monitor.run(program).made if one.type.endswith("AdmissionPolicy")]
    assert {one.inputs["metadata"]["name"] for one in made} == {policy.name for policy in policies.POLICIES}


def test_what_only_the_runtime_may_do_is_bound_to_the_account_that_it_runs_under() -> None:
    fields = configs.existing(
        autoscaler={"namespace": "scaling", "serviceAccount": {"create": False, "name": "theirs"}}
    )
    config = configs.of_cluster(fields).stack.config.clusters["bench"].autoscaler

    def program() -> None:
        provider = k8s.Provider("plane")
        admission_policies.AdmissionPolicies(
            "p", admission_policies.AdmissionPoliciesArgs(provider=provider, runtime=config)
        )

    world = monitor.run(program)
    want = policies.about_runtime(policies.Runtime(namespace="scaling", service_account="theirs"))
    assert len(want) == 13
    for policy in want:
        made, binding = policy.manifests()
        assert world.one("AdmissionPolicy", f"p.{policy.name}").inputs["spec"] == made["spec"]
        assert world.one("AdmissionPolicyBinding", f"p.{policy.name}.binding").inputs["spec"] == binding["spec"]
        assert "scaling" in str((made["spec"], binding["spec"]))
    of_account = {each.name for each in want if "system:serviceaccount:scaling:theirs" in str(each.manifests())}
    of_namespace = {each.name for each in policies.about_guests("scaling")}
    others = {"confirm-leaving.sluice.dev", "machine-sleepers.sluice.dev"}
    assert of_account == {each.name for each in want} - of_namespace - others


@pytest.mark.accept("S23")
def test_who_may_end_the_runtime_stands_in_the_stacks_file() -> None:
    fields = configs.existing(
        autoscaler={"namespace": "scaling", "deployers": {"users": ["pipeline"], "groups": ["ops", "it's"]}}
    )
    config = configs.of_cluster(fields).stack.config.clusters["bench"].autoscaler

    def program() -> None:
        args = admission_policies.AdmissionPoliciesArgs(provider=k8s.Provider("plane"), runtime=config)
        admission_policies.AdmissionPolicies("p", args)

    want = leaving.policy("scaling", leaving.Deployers(users=("pipeline",), groups=("ops", "it's")))
    made = monitor.run(program).one("AdmissionPolicy", f"p.{want.name}")
    assert made.inputs["spec"] == want.manifests()[0]["spec"]
    [validation] = made.inputs["spec"]["validations"]
    assert "'pipeline'" in validation["expression"]
    assert "['ops', 'it\\'s']" in validation["expression"]
