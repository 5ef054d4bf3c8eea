"""Histograms as Prometheus reads them."""

from autoscaler.control import metrics


def test_values_are_counted_up_to_each_bound_and_whoever_is_gone_is_forgotten() -> None:
    made = metrics.Histogram("waits", "How long.", "scope", (1, 2.5))
    for value in (0.5, 1, 2, 100):
        made.observe("a", value)
    made.observe("b", 1)
    samples = {
        (each.name, each.labels.get("le")): each.value
        for each in made.metric().samples
        if "b" not in each.labels.values()
    }
    want = {
        ("waits_bucket", "1"): 2,
        ("waits_bucket", "2.5"): 3,
        ("waits_bucket", "+Inf"): 4,
        ("waits_count", None): 4,
        ("waits_sum", None): 103.5,
    }
    assert samples == want
    made.keep({"b"})
    assert {each.labels["scope"] for each in made.metric().samples} == {"b"}
