"""A process that keeps pods and nodes current as the runtime does, and tells what that costs: run by the benches."""

import argparse
import asyncio
import sys
from pathlib import Path

from autoscaler.kube import kinds, objects, store
from autoscaler.kube.reading import reflector
from tests.bench import load, pod_indexes, results


async def follow(kubeconfig: Path, idle_seconds: float) -> None:
    """Sync, tell; stay idle, tell."""
    before = results.resident_mb()
    async with load.connected(kubeconfig) as api:
        pod_table: store.Table[objects.Pod] = store.Table()
        node_table: store.Table[objects.Node] = store.Table()
        for function in (pod_indexes.node, pod_indexes.owner, pod_indexes.worker_pool, pod_indexes.unschedulable_shape):
            pod_table.index(function)
        followed_pods = reflector.Reflector(api, kinds.PODS, pod_table, objects.pod)
        followed_nodes = reflector.Reflector(api, kinds.NODES, node_table, objects.node)
        loop = asyncio.get_running_loop()
        started = loop.time()
        tasks = [asyncio.create_task(followed_pods.run()), asyncio.create_task(followed_nodes.run())]
        while not (pod_table.synced and node_table.synced):  # noqa: ASYNC110  # a table has no event, nor needs one
            await asyncio.sleep(0.01)
        results.tell(
            "follower_synced",
            seconds=loop.time() - started,
            pods=len(pod_table),
            nodes=len(node_table),
            shapes=len(pod_table.index(pod_indexes.unschedulable_shape)),
            resident_mb=results.resident_mb(),
            of_which_objects_mb=results.resident_mb() - before,
        )
        used, at = results.cpu_seconds(), loop.time()
        await asyncio.sleep(idle_seconds)
        results.tell(
            "follower_idle",
            seconds=idle_seconds,
            core_percent=100 * (results.cpu_seconds() - used) / (loop.time() - at),
            resident_mb=results.resident_mb(),
        )
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("kubeconfig", type=Path)
    parser.add_argument("--idle-seconds", type=float, default=0.0)
    options = parser.parse_args()
    asyncio.run(follow(options.kubeconfig, options.idle_seconds))
    return 0


if __name__ == "__main__":
    sys.exit(main())
