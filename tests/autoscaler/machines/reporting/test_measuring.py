"""Machine types are shown as metrics by group and type."""

from autoscaler.machines.model import Usage
from autoscaler.machines.reporting import measuring


def test_each_state_of_a_type_is_a_gauge() -> None:
    usage = {"general": {"small": Usage(maximum=4, reserved=3, used=1, waiting=0)}}
    shown = {
        metric.name: [(sample.labels, sample.value) for sample in metric.samples] for metric in measuring.of(usage)
    }
    labels = {"group": "general", "type": "small"}
    assert shown == {
        "sluice_machines_maximum": [(labels, 4)],
        "sluice_machines_reserved": [(labels, 3)],
        "sluice_machines_used": [(labels, 1)],
        "sluice_machines_waiting": [(labels, 0)],
    }
