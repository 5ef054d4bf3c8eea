"""What a plane is made of, and the command line of each part. Pure: a function of paths, ports and options."""

import dataclasses
import enum
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from tools.local import certificates

SERVICE_CIDR = "10.0.0.0/24"
POD_CIDR = "10.128.0.1/16"
STAGES = Path(__file__).parent / "stages"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}


class Component(enum.StrEnum):
    ETCD = "etcd"
    API_SERVER = "kube-apiserver"
    CONTROLLER_MANAGER = "kube-controller-manager"
    SCHEDULER = "kube-scheduler"
    KWOK = "kwok"
    MOTO = "moto"
    NODE_REGISTRAR = "node-registrar"
    KUBERAY = "kuberay-operator"


# Ray's operator is for those who ask for it; `make up` does.
USUAL = frozenset(Component) - {Component.KUBERAY}

# Programs of tools/toolchain; moto and the registrar are Python's.
BUILT = frozenset(Component) - {Component.MOTO, Component.NODE_REGISTRAR}
# Started by this interpreter. Ray's operator too, for it needs something done first.
IN_PYTHON = frozenset({Component.MOTO, Component.NODE_REGISTRAR, Component.KUBERAY})
# The second wave asks for much at once and is refused, and backs off, until the API server has its RBAC rules:
# started later it is ready sooner.
START_ORDER: tuple[tuple[Component, ...], ...] = (
    (Component.ETCD, Component.API_SERVER, Component.KWOK, Component.MOTO, Component.NODE_REGISTRAR),
    (Component.CONTROLLER_MANAGER, Component.SCHEDULER, Component.KUBERAY),
)
# Clients first, so that none of them shouts about a server that is gone.
STOP_ORDER: tuple[tuple[Component, ...], ...] = (
    (
        Component.KUBERAY,
        Component.NODE_REGISTRAR,
        Component.KWOK,
        Component.SCHEDULER,
        Component.CONTROLLER_MANAGER,
        Component.MOTO,
    ),
    (Component.API_SERVER,),
    (Component.ETCD,),
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What kind of plane is wanted."""

    components: frozenset[Component] = USUAL
    audit: bool = False
    fast_node_failure: bool = False  # a node without heartbeats is NotReady after 12 s instead of 50 s
    scheduler_qps: int = 300
    controller_qps: int = 300
    region: str = "eu-west-1"
    boot_seconds: float = 0.0  # from an instance's launch to its node
    registrar_interval_seconds: float = 0.5
    pod_proxy: str = (
        ""  # http://127.0.0.1:PORT: an HTTP proxy by which the API server reaches pods, which have no network
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """A loopback port for each server."""

    etcd: int
    etcd_peer: int
    api_server: int
    controller_manager: int
    scheduler: int
    kwok: int
    moto: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Paths:
    """Where a plane keeps its files."""

    root: Path

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def data(self) -> Path:
        return self.root / "data"

    @property
    def pki(self) -> certificates.Pki:
        return certificates.Pki(directory=self.root / "pki")

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        return self.root / "kubeconfig"

    @property
    def audit_policy(self) -> Path:
        return self.root / "pki" / "audit-policy.yaml"

    @property
    def egress(self) -> Path:
        return self.root / "pki" / "egress.yaml"

    @property
    def audit_log(self) -> Path:
        return self.logs / "audit.jsonl"

    def log(self, component: Component) -> Path:
        return self.logs / f"{component}.log"

    def component_kubeconfig(self, component: Component) -> Path:
        return self.root / "pki" / f"{component}.kubeconfig"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Blueprint:
    """Everything the command lines depend on."""

    identifier: str
    paths: Paths
    ports: Ports
    options: Options

    @property
    def api_url(self) -> str:
        return f"https://127.0.0.1:{self.ports.api_server}"

    @property
    def aws_url(self) -> str:
        return f"http://127.0.0.1:{self.ports.moto}"


def arguments(component: Component, blueprint: Blueprint) -> tuple[str, ...]:
    """Return the arguments of a component, without the program itself."""
    return _ARGUMENTS[component](blueprint)


def command(component: Component, blueprint: Blueprint, programs: Mapping[str, Path]) -> tuple[str, ...]:
    """Return the whole command line of a component."""
    program = sys.executable if component in IN_PYTHON else str(programs[component])
    return (program, *arguments(component, blueprint))


def client_environment(blueprint: Blueprint) -> dict[str, str]:
    """Return the variables that point kubectl, boto3 and the AWS CLI at this plane."""
    return {
        "KUBECONFIG": str(blueprint.paths.kubeconfig),
        "AWS_ENDPOINT_URL": blueprint.aws_url,
        "AWS_REGION": blueprint.options.region,
        "AWS_DEFAULT_REGION": blueprint.options.region,
        # A proxy of the user's would be asked for loopback addresses too.
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
        **CREDENTIALS,
    }


def _etcd(blueprint: Blueprint) -> tuple[str, ...]:
    client = f"http://127.0.0.1:{blueprint.ports.etcd}"
    peer = f"http://127.0.0.1:{blueprint.ports.etcd_peer}"
    return (
        f"--data-dir={blueprint.paths.data / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",  # survives a killed process, though not a power cut
        "--log-level=warn",
    )


def _api_server(blueprint: Blueprint) -> tuple[str, ...]:
    pki = blueprint.paths.pki
    return (
        f"--etcd-servers=http://127.0.0.1:{blueprint.ports.etcd}",
        # Should another plane's etcd ever have taken our port, we would not write among its objects.
        f"--etcd-prefix=/{blueprint.identifier}",
        f"--secure-port={blueprint.ports.api_server}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",  # EndpointSlices cannot hold loopback addresses
        *_serving(pki),
        f"--client-ca-file={pki.authority}",
        f"--requestheader-client-ca-file={pki.front_proxy_authority}",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",  # as on EKS: device plugins need it
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={pki.service_account_key}",
        f"--service-account-signing-key-file={pki.service_account_key}",
        f"--service-cluster-ip-range={SERVICE_CIDR}",
        *(_audit(blueprint.paths) if blueprint.options.audit else ()),
        *((f"--egress-selector-config-file={blueprint.paths.egress}",) if blueprint.options.pod_proxy else ()),
    )


def _audit(paths: Paths) -> tuple[str, ...]:
    return (
        f"--audit-policy-file={paths.audit_policy}",
        f"--audit-log-path={paths.audit_log}",
        "--audit-log-format=json",
        "--audit-log-mode=blocking",  # what was answered is in the log
    )


def _controller_manager(blueprint: Blueprint) -> tuple[str, ...]:
    pki = blueprint.paths.pki
    fast = ("--node-monitor-period=1s", "--node-monitor-grace-period=12s")
    return (
        *_client(Component.CONTROLLER_MANAGER, blueprint, port=blueprint.ports.controller_manager),
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={pki.service_account_key}",
        f"--root-ca-file={pki.authority}",
        f"--cluster-signing-cert-file={pki.authority}",
        f"--cluster-signing-key-file={pki.key('ca')}",
        "--controllers=*,-nodeipam,-route,-service-lb-controller",
        *_qps(blueprint.options.controller_qps),
        *(fast if blueprint.options.fast_node_failure else ()),
    )


def _scheduler(blueprint: Blueprint) -> tuple[str, ...]:
    return (
        *_client(Component.SCHEDULER, blueprint, port=blueprint.ports.scheduler),
        *_qps(blueprint.options.scheduler_qps),
    )


def _kwok(blueprint: Blueprint) -> tuple[str, ...]:
    return (
        f"--kubeconfig={blueprint.paths.component_kubeconfig(Component.KWOK)}",
        *(f"--config={stage}" for stage in sorted(STAGES.glob("*.yaml"))),
        # Not all nodes: one whose annotation is taken away stops beating, which is how a test makes a node fail.
        "--manage-all-nodes=false",
        "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
        "--node-lease-duration-seconds=40",
        "--node-ip=127.0.0.1",
        f"--cidr={POD_CIDR}",
        f"--server-address=127.0.0.1:{blueprint.ports.kwok}",
    )


def _moto(blueprint: Blueprint) -> tuple[str, ...]:
    return ("-m", "moto.server", "-H", "127.0.0.1", "-p", str(blueprint.ports.moto))


def _registrar(blueprint: Blueprint) -> tuple[str, ...]:
    return (
        "-m",
        "tools.local",
        "node-registrar",
        f"--kubeconfig={blueprint.paths.component_kubeconfig(Component.NODE_REGISTRAR)}",
        f"--aws-endpoint={blueprint.aws_url}",
        f"--region={blueprint.options.region}",
        f"--boot-seconds={blueprint.options.boot_seconds}",
        f"--interval={blueprint.options.registrar_interval_seconds}",
    )


def _kuberay(blueprint: Blueprint) -> tuple[str, ...]:
    kubeconfig = blueprint.paths.component_kubeconfig(Component.KUBERAY)
    return ("-m", "tools.local", "kuberay", f"--kubeconfig={kubeconfig}")


def _client(component: Component, blueprint: Blueprint, *, port: int) -> tuple[str, ...]:
    kubeconfig = blueprint.paths.component_kubeconfig(component)
    return (
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        *_serving(blueprint.paths.pki),
        "--leader-elect=false",
        # Looked up once at the start, and the end of them if it fails: a restart must not depend on it.
        "--authentication-skip-lookup=true",
        f"--client-ca-file={blueprint.paths.pki.authority}",
    )


def _serving(pki: certificates.Pki) -> tuple[str, ...]:
    return (f"--tls-cert-file={pki.certificate('server')}", f"--tls-private-key-file={pki.key('server')}")


def _qps(queries_per_second: int) -> tuple[str, ...]:
    return (f"--kube-api-qps={queries_per_second}", f"--kube-api-burst={2 * queries_per_second}")


_ARGUMENTS: Mapping[Component, Callable[[Blueprint], tuple[str, ...]]] = {
    Component.ETCD: _etcd,
    Component.API_SERVER: _api_server,
    Component.CONTROLLER_MANAGER: _controller_manager,
    Component.SCHEDULER: _scheduler,
    Component.KWOK: _kwok,
    Component.MOTO: _moto,
    Component.NODE_REGISTRAR: _registrar,
    Component.KUBERAY: _kuberay,
}
