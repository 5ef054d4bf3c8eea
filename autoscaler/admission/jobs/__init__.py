"""The kinds of jobs that can wait for quota. One line here makes a kind known; docs/adding-a-job-kind.md is the way."""

from typing import Final

from autoscaler.admission.jobs.batch_job import BatchJob
from autoscaler.admission.jobs.port import ResizableJob
from autoscaler.admission.jobs.ray_cluster import RayCluster

KINDS: Final[tuple[ResizableJob, ...]] = (
    BatchJob(),
    RayCluster(),
)
