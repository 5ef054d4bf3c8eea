"""What tests of components live under: pulumi_aws.ec2 is loaded first, because it warns about a part of its own."""

import warnings

import pulumi_aws

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    pulumi_aws.ec2.Vpc  # noqa: B018  # the first look loads it
