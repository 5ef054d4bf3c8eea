"""Feature gates are a closed set, and are read back from what is written of them."""

import re

import pytest

from autoscaler.api.features import FeatureGates


@pytest.mark.accept("E12", part="the gate is on unless somebody says otherwise")
def test_everything_is_on_where_nobody_says_otherwise() -> None:
    assert FeatureGates.parse("") == FeatureGates(elastic_jobs=True)


@pytest.mark.parametrize("given", [FeatureGates(), FeatureGates(elastic_jobs=False)])
def test_what_is_written_is_read_back(given: FeatureGates) -> None:
    assert FeatureGates.parse(given.to_text()) == given


def test_spaces_and_empty_parts_mean_nothing() -> None:
    assert FeatureGates.parse(" elasticJobs=false, ,") == FeatureGates(elastic_jobs=False)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("elasticJob=true", "'elasticJob' is no feature gate; did you mean elasticJobs? there are elasticJobs"),
        ("magic=true", "'magic' is no feature gate; there are elasticJobs"),
        ("elastic_jobs=true", "'elastic_jobs' is no feature gate; did you mean elasticJobs? there are elasticJobs"),
        ("elasticJobs", "'elasticJobs' must be elasticJobs=true or elasticJobs=false"),
        ("elasticJobs=yes", "'elasticJobs=yes' must be elasticJobs=true or elasticJobs=false"),
        ("elasticJobs=true,elasticJobs=false", "elasticJobs is given twice"),
    ],
)
def test_what_is_no_gate_is_refused_with_what_would_be_one(text: str, want: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(want)}$"):
        FeatureGates.parse(text)
