"""A worker for a worker pool, small enough to read: it takes jobs from a queue until there are none.

    QUEUE_URL=http://localhost:8080 SLUICE_IDLE_TIMEOUT_MINUTES=3 python worker.py

Sluice tells a worker's container two things, and a worker should honour both:

SLUICE_IDLE_TIMEOUT_MINUTES   exit with 0 after so many minutes without a job. Nobody else ends an idle worker.
SLUICE_WORKER_POOL            the name of its pool, for logs and metrics

It is told to go with SIGTERM, as every pod is: the job in hand is finished, and no other is taken. So give the pod a
terminationGracePeriodSeconds that is longer than a job. A job that fails ends the worker with 1: the pool then tells of
a failed worker, and keeps it for inspection if retainFailedWorkers says so.
"""
# ruff: noqa: INP001, S310, T201 - a program, not a package; its queue is its owner's; its log is what it prints

import os
import signal
import sys
import threading
import time
import urllib.error
import urllib.request
from http import HTTPStatus

ASK_AGAIN_SECONDS = 0.5
"""How long to wait before an empty queue, or one that does not answer, is asked again."""
JOB_SECONDS = float(os.environ.get("JOB_SECONDS", "1"))
told_to_go = threading.Event()


def take(queue: str) -> str | None:
    """Take a job; None if there is none, or the queue does not answer."""
    key = {"Authorization": f"Apikey {os.environ['API_KEY']}"} if "API_KEY" in os.environ else {}
    request = urllib.request.Request(f"{queue}/take", method="POST", headers=key)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.read().decode() if answer.status == HTTPStatus.OK else None
    except (urllib.error.URLError, OSError) as error:
        print(f"the queue does not answer: {error}", flush=True)
        return None


def work(job: str) -> None:
    """Do a job: your own code goes here."""
    print(f"working on {job}", flush=True)
    time.sleep(JOB_SECONDS)


def main() -> int:
    """Work until there was no job for long enough, or until told to go."""
    signal.signal(signal.SIGTERM, lambda *_: told_to_go.set())
    queue = os.environ["QUEUE_URL"].rstrip("/")
    idle_seconds = 60 * float(os.environ.get("SLUICE_IDLE_TIMEOUT_MINUTES", "1"))
    pool = os.environ.get("SLUICE_WORKER_POOL", "no pool")
    print(f"a worker of {pool}, idle for at most {idle_seconds:g} s", flush=True)
    worked_at = time.monotonic()
    while not told_to_go.is_set() and time.monotonic() - worked_at < idle_seconds:
        if job := take(queue):
            work(job)
            worked_at = time.monotonic()
        else:
            told_to_go.wait(ASK_AGAIN_SECONDS)
    print("told to go" if told_to_go.is_set() else "no more work", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
