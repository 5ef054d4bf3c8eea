"""What is told about a job when a write is done. Pure."""

from collections.abc import Mapping
from typing import Final

from autoscaler.admission.writes import Event, Step, Write
from autoscaler.control.writes import Verb

_REASONS: Final[Mapping[Step, str]] = {
    Step.CREATE: "Queued",
    Step.ADMIT: "Admitted",
    Step.CLAIM: "Preempting",
    Step.EVICT: "Evicted",
    Step.RELEASE: "QuotaReleased",
    Step.SHRINK: "Resized",
    Step.FOLD: "Resized",
}


def event_of(write: Write) -> Event | None:
    """Return the event that tells of a write; None where nobody needs to know."""
    is_release_of_object = write.step is Step.RELEASE and write.verb is not Verb.PATCH_STATUS
    if write.step not in _REASONS or is_release_of_object:
        return None
    return Event(reason=_REASONS[write.step], message=write.why, is_warning=write.step is Step.EVICT)
