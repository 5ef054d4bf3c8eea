"""`plan` on a real API server: what it printed for all controllers is what the runtime then did."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from autoscaler.api import keys
from autoscaler.control.plans import Command
from components.access import rbac
from tests import plan_writes
from tests.e2e import connecting, replicas, waiting
from tests.e2e.admission import ground as admission
from tests.e2e.capacity.site import Site
from tests.e2e.machines import ground as machines
from tests.e2e.workers import ground as workers
from tests.e2e.workers.queue_servers import Queues
from tools.local import tokens
from tools.local.api import Api
from tools.local.asg.asg_judge import Pace
from tools.local.asg.asg_rules import AsgRules
from tools.local.components import Options
from tools.local.plane import REPOSITORY, Plane

OWN = machines.RUNTIME_NAMESPACE
OWNERS = {
    "workers": {"workerpool"},
    "admission": {"workload", "job", "clusterqueue", "localqueue", "resourceflavor"},
    "machines": {"statefulset", "service", "machinenodepool", "machine", "node", "configmap"},
    "capacity": {"instancepool", "instance", "scope", "provideraccount"},
}
"""Who writes to which kinds; pods are told apart by their namespaces."""
LEASES, PODS = (
    {"apiGroups": [group], "resources": [resource], "verbs": ["list"]}
    for group, resource in (("coordination.k8s.io", "leases"), ("", "pods"))
)


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A plane on which all controllers have something to do."""

    plane: Plane
    directory: Path
    site: Site
    queue: Queues
    workers: workers.Ground
    jobs: admission.Ground
    machines: machines.Ground

    def runtime(self, name: str, *flags: str) -> replicas.Replica:
        """Start the runtime with all controllers, as a pod of this name."""
        replica = replicas.Replica(
            self.directory / "runtime",
            OWN,
            "sluice",
            *("--pod-name", name, "--scope", "cluster", "--cluster", self.site.cluster, "--allow-loopback-queues"),
            *flags,
            program=replicas.RUNTIME,
            environment={**self.plane.environment, "AWS_ENDPOINT_URL": self.site.asg_rules.url},
        )
        self._make_pod(name, replica.port)
        return replica

    def _make_pod(self, name: str, port: int) -> None:
        """Let the API server know the runtime as a pod; nobody schedules it, and the proxy finds it by its port."""
        pods = f"/api/v1/namespaces/{OWN}/pods"
        container = {"name": "main", "image": "sluice:1", "ports": [{"containerPort": port}]}
        spec = {"schedulerName": "nobody", "containers": [container]}
        self.plane.api.create(pods, {"metadata": {"name": name}, "spec": spec})
        self.plane.api.merge(f"{pods}/{name}/status", {"status": {"podIP": "10.1.2.3"}})

    def plan(self, *flags: str, config: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run the command."""
        return self.run("plan", *flags, config=config)

    def run(self, *words: str, config: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command of the runtime's program."""
        command = [sys.executable, "-m", "autoscaler", *words]
        if "--url" not in words:
            command += ["--kubeconfig", str(config or self.plane.kubeconfig)]
        return subprocess.run(command, cwd=REPOSITORY, env=os.environ, capture_output=True, text=True, check=False)

    def sections(self) -> dict[str, Any]:
        """Return what each controller would do, by JSON."""
        answer = self.plan("-o", "json")
        assert answer.returncode == 0, answer.stderr
        return {each["controller"]: each for each in json.loads(answer.stdout)["controllers"]}

    def wait_for_plan(self, **want: str) -> dict[str, list[Command]]:
        """Wait until each controller plans something of this sort, and nothing is unknown; return it."""

        def planned() -> dict[str, list[Command]]:
            said = self.sections()
            assert {name for name, each in said.items() if each["commands"]} == set(want), said
            found = {name: [Command(**one) for one in each["commands"]] for name, each in said.items()}
            for name, part in want.items():
                assert any(part in f"{each.verb} {each.what}" for each in found[name]), (part, found[name])
            return found

        return waiting.eventually(planned, within_seconds=60)

    def written(self, since: float) -> dict[str, list[plan_writes.Written]]:
        """Return what each controller has written since then, in order, from the API server's own log."""
        found: dict[str, list[plan_writes.Written]] = {name: [] for name in OWNERS}
        for line in self.plane.paths.audit_log.read_text().splitlines():
            event = json.loads(line)
            if event["user"]["username"] != machines.RUNTIME.user or _seconds(event) < since:
                continue
            written = _written(event)
            if written is not None:
                found[self._owner(written)].append(written)
        return found

    def _owner(self, written: plan_writes.Written) -> str:
        kind, _, name = written[1].partition(" ")
        if kind == "pod":
            namespace = name.partition("/")[0]
            return {self.workers.namespace: "workers", self.jobs.namespace: "admission"}.get(namespace, "machines")
        return next(owner for owner, kinds in OWNERS.items() if kind in kinds)

    def check(self, planned: dict[str, list[Command]], since: float) -> None:
        """Wait until all that was planned is done, and see that each controller did nothing else first."""
        want = {name: plan_writes.of_commands(commands) for name, commands in planned.items()}

        def done() -> bool:
            have = self.written(since)
            for name, wanted in want.items():
                plan_writes.compare(wanted, have[name])
            return True

        waiting.eventually(done, within_seconds=60)
        resized = [each.what.split() for each in planned["capacity"] if each.verb == "resize"]
        sizes = {name: int(after) for _, _, name, _, _, _, after in resized}
        waiting.eventually(lambda: self.site.desired() | sizes == self.site.desired())


def _seconds(event: Any) -> float:
    stamp = event["requestReceivedTimestamp"]
    return time.mktime(time.strptime(stamp[:19], "%Y-%m-%dT%H:%M:%S")) - time.timezone + float(f"0{stamp[19:-1]}")


def _written(event: Any) -> plan_writes.Written | None:
    """Return what a call wrote; None: nothing, or it was refused."""
    methods = {"create": "POST", "patch": "PATCH", "delete": "DELETE"}
    if event["verb"] not in methods or event.get("responseStatus", {}).get("code", 500) >= 300:
        return None
    path = event["requestURI"].partition("?")[0]
    return plan_writes.of_request(methods[event["verb"]], path, event.get("requestObject") or {})


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with contextlib.ExitStack() as stack:
        proxy = stack.enter_context(connecting.Proxy())
        options = Options(boot_seconds=1.0, audit=True, pod_proxy=proxy.socket)
        plane = stack.enter_context(machines.prepared(tmp_path / "plane", options))
        config = tmp_path / "runtime"
        access = tokens.write_kubeconfig(plane.api, config, namespace=OWN, service_account=machines.RUNTIME_ACCOUNT)
        runtime = stack.enter_context(Api(access))
        asg_rules = stack.enter_context(AsgRules.start(plane.aws_endpoint, Pace(pending_seconds=0.5)))
        site = Site(plane=plane, asg_rules=asg_rules, remover=runtime)
        site.open()
        yield Stage(
            plane=plane,
            directory=tmp_path,
            site=site,
            queue=stack.enter_context(Queues()),
            workers=workers.Ground(plane=plane, namespace=_namespace(plane, "workers")),
            jobs=admission.Ground(plane=plane, runtime=runtime, namespace=_namespace(plane, "jobs")),
            machines=machines.Ground(
                plane=plane, group=_namespace(plane, "guests", {keys.INJECT_RESOURCE: keys.INJECT_ENABLED})
            ),
        )


def _namespace(plane: Plane, name: str, labels: dict[str, str] | None = None) -> str:
    plane.api.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels or {}}})
    waiting.eventually(lambda: plane.api.get(f"/api/v1/namespaces/{name}/serviceaccounts/default"))
    return name


def account(stage: Stage, name: str, rules: Iterable[Any], own: Iterable[Any] = ()) -> Path:
    """Make a ServiceAccount with these rights, and those in the runtime's namespace, and a kubeconfig of its."""
    metadata: dict[str, Any] = {"metadata": {"name": name}}
    api, path = stage.plane.api, stage.directory / f"{name}.kubeconfig"
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    api.create(f"/api/v1/namespaces/{OWN}/serviceaccounts", metadata)
    api.create(f"{rbac}/clusterroles", {**metadata, "rules": list(rules)})
    subject = {"kind": "ServiceAccount", "name": name, "namespace": OWN}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    api.create(f"{rbac}/clusterrolebindings", {**metadata, "roleRef": role, "subjects": [subject]})
    there = f"{rbac}/namespaces/{OWN}"
    api.create(f"{there}/roles", {**metadata, "rules": list(own)})
    api.create(f"{there}/rolebindings", {**metadata, "roleRef": {**role, "kind": "Role"}, "subjects": [subject]})
    tokens.write_kubeconfig(api, path, namespace=OWN, service_account=name)
    return path


def _took(stage: Stage, *words: str) -> float:
    began = time.monotonic()
    assert stage.run(*words).returncode == 0
    return time.monotonic() - began


@pytest.mark.accept("U1")
def test_what_plan_printed_is_what_all_controllers_then_did(stage: Stage) -> None:
    pool = stage.site.add_pool("first")
    group = stage.site.add_group(pool, sizes=(0, 0, 3))
    stage.workers.make_source()
    stage.workers.make_pool("encode", stage.queue.fill("encode", 3))
    stage.jobs.add_flavor(admission.FLAVOR)
    queue = stage.jobs.add_queue("1")
    stage.jobs.make_job("first", queue, cpu="2")
    stage.machines.add_node()
    stage.machines.add_machine()
    stage.site.add_pod("waits", nodeSelector={keys.INSTANCE_POOL: pool})

    # 1 It only observes: all there is to do is new.
    with stage.runtime("observer", "--observe") as observer:
        replicas.ready(observer)
        planned = stage.wait_for_plan(
            workers="create 3 pods of workerpool workers/encode",
            admission="create workload jobs/",
            machines="create statefulset sluice-system/",
            capacity=f"resize node group {group} from 0 to 1",
        )
        text = stage.plan()
        assert text.stdout.startswith("Plan of 2")
        assert "The runtime only observes: nothing of this is done." in text.stdout
        assert max(map(len, text.stdout.splitlines())) <= 80
        assert "  + create 3 pods of workerpool workers/encode: the queue asks" in text.stdout
        waiting.eventually(lambda: {each["controller"] for each in observer.entries("plan")} == set(planned))
        assert not any(stage.written(0).values()), "to plan and to observe is to write nothing"
        observer.send(signal.SIGTERM)
        observer.wait()

    # 2 It acts.
    with stage.runtime("actor") as actor:
        began = time.time()
        replicas.ready(actor)
        stage.check(planned, began)
        stage.site.wait_bound("waits")
        waiting.eventually(lambda: stage.site.group_status(pool, group).get("instances") == 1, within_seconds=60)
        waiting.eventually(lambda: stage.plan().stdout.endswith("Plan: nothing to do.\n"), within_seconds=60)

        # 3 It is paused: what waits could go on.
        stage.plane.kubectl("annotate", "namespace", OWN, f"{keys.PAUSED}=true")
        waiting.eventually(lambda: {each["state"] for each in stage.sections().values()} == {"paused"})
        stage.jobs.set_quota(queue, "4")
        stage.machines.add_guest("guest")
        stage.site.add_pod("waits-too", nodeSelector={keys.INSTANCE_POOL: pool})
        planned = stage.wait_for_plan(
            admission="patch status of workload jobs/",
            machines="pod guests/guest",
            capacity=f"resize node group {group} from 1 to 2",
        )
        assert "how 1 worker pools grow: no queue is read" in stage.sections()["workers"]["unknown"][0]
        began = time.time()
        stage.plane.kubectl("annotate", "namespace", OWN, f"{keys.PAUSED}-")
        stage.check(planned, began)


@pytest.mark.accept("U1", part="who leads is found and followed; what is missing is named; within two seconds")
def test_the_leader_is_found_and_what_is_missing_is_named(stage: Stage) -> None:
    nobody = stage.plan()
    assert (nobody.returncode, nobody.stdout) == (1, "")
    assert "nobody leads" in nobody.stderr
    with stage.runtime("leader") as leader, stage.runtime("second") as second:
        for replica in (leader, second):
            replicas.ready(replica)
        waiting.eventually(lambda: stage.plan().returncode == 0)
        urls = {name: f"http://127.0.0.1:{each.port}" for name, each in (("leader", leader), ("second", second))}
        answers = {name: stage.plan("--url", url) for name, url in urls.items()}
        (standby,) = [name for name, each in answers.items() if each.returncode]
        (leads,) = set(answers) - {standby}
        assert f"does not lead: {leads} does" in answers[standby].stderr
        assert f"UTC, by leader {leads}" in answers[leads].stdout

        rules, proxy = rbac.people_roles()[rbac.PLAN].rules, rbac.plan_proxy()
        reader = account(stage, "reader", rules, proxy)
        assert f"UTC, by leader {leads}" in stage.plan(config=reader).stdout
        claimed = [{"name": "data", "persistentVolumeClaim": {"claimName": "nowhere"}}]  # so volumes are read, too
        stage.site.add_pod("waits", nodeSelector={"no-node-has": "this"}, volumes=claimed)
        explained = stage.run("explain", "pod", f"{stage.site.namespace}/waits", config=reader)
        assert "waits" in explained.stdout, explained.stderr
        told = stage.run("status", "-o", "json", config=reader)
        assert (told.returncode, told.stderr) == (0, "")
        status = json.loads(told.stdout)
        assert (status["leaders"], status["unread"]) == ([leads], [])
        assert sum(each["podsWaiting"] for each in status["scopes"]) >= 1
        assert f"led by {leads}" in stage.run("status", config=reader).stdout
        used = stage.run("usage", "-o", "csv", config=reader)
        assert (used.returncode, used.stderr, used.stdout.partition("\n")[0]) == (
            0,
            "",
            "month,pool,scope,seconds,cost",
        )
        for number, (want, kept, own) in enumerate(
            (
                ("list leases.coordination.k8s.io", [PODS], proxy),
                ("list pods in all namespaces (or give --namespace)", [LEASES], proxy),
                (f"get pods/proxy in namespace {OWN}", rules, ()),
            )
        ):
            refused = stage.plan(config=account(stage, f"less-{number}", kept, own))
            assert (refused.returncode, refused.stdout) == (1, "")
            assert f"you lack the right to {want}: " in refused.stderr

        took = [(_took(stage, "plan"), _took(stage, "plan", "--help")) for _ in range(3)]
        plan, start = (min(each) for each in zip(*took, strict=True))
        assert plan < max(2.0, 4 * start)  # where the start alone takes half a second and more, the computer is busy
    assert "nobody answers at http://127.0.0.1:1" in stage.plan("--url", "http://127.0.0.1:1").stderr
