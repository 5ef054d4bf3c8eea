"""The stack: what `pulumi up` makes. It reads the config, builds the components and exports; it must not calculate."""

import pulumi

from autoscaler.api import version
from components import admission_policies, custom_resources

definitions = custom_resources.Definitions("definitions", custom_resources.DefinitionsArgs())
admission_policies.AdmissionPolicies("policies", admission_policies.AdmissionPoliciesArgs(definitions=definitions))

pulumi.export("version", version.VERSION)
