"""Whose a job is: which queue's, by its label, or another operator's, by its owner. The same for all kinds.

The admission policies ask the same, so that a job is never suspended by them and then left alone here.
"""

from autoscaler.api import keys
from autoscaler.api.policies.jobs import queued
from autoscaler.kube import objects


def queue_of(meta: objects.Meta) -> str | None:
    """Name the LocalQueue that a job's label names; None: it names none."""
    return meta.labels.get(keys.QUEUE_NAME) or None


def run_by_another(meta: objects.Meta) -> str | None:
    """Say which owner suspends and resumes a job itself; None: none does."""
    owner = meta.controller
    if owner is None or not queued.runs_jobs(owner.api_version, owner.kind):
        return None
    return f"owned by {owner.kind} {owner.name}"
