"""A process that keeps pods current with the client library's own informer, and tells what that costs."""

import os
import sys
import time

from kubernetes import client, config
from kubernetes.informer import SharedInformer

from tests.bench import results


def main() -> None:
    path, wanted = sys.argv[1], int(sys.argv[2])
    before = results.resident_mb()
    config.load_kube_config(path)
    informer = SharedInformer(list_func=client.CoreV1Api().list_pod_for_all_namespaces)
    started = time.monotonic()
    informer.start()
    while len(informer.cache.list_keys()) < wanted:
        time.sleep(0.05)
    results.tell(
        "client_library_informer",
        seconds=time.monotonic() - started,
        pods=wanted,
        resident_mb=results.resident_mb(),
        of_which_objects_mb=results.resident_mb() - before,
    )
    sys.stdout.flush()
    os._exit(0)  # its own stop waits for the watch to end, which takes minutes


if __name__ == "__main__":
    main()
