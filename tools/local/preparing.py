"""Make a plane's directory: certificates, kubeconfigs, audit policy, and the blueprint for later commands."""

import dataclasses
import json
import shutil
from pathlib import Path

from tools.local import certificates, components, kubeconfig
from tools.local.components import Component

# Reads by metadata (a list of ten thousand pods is no news), writes with what was sent.
AUDIT_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  verbs: [get, list, watch]
- level: Request
"""
EGRESS = """\
apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections:
- name: cluster
  connection:
    proxyProtocol: HTTPConnect
    transport:
      uds:
        udsName: "{socket}"
"""
CLIENTS = (
    Component.CONTROLLER_MANAGER,
    Component.SCHEDULER,
    Component.KWOK,
    Component.NODE_REGISTRAR,
    Component.KUBERAY,
)
"""Whoever speaks to the API server as itself."""
_BLUEPRINT = "blueprint.json"


def prepare(blueprint: components.Blueprint) -> None:
    """Write all files that the components are started with."""
    paths = blueprint.paths
    # The logs of the plane that was here before would be taken for this one's.
    shutil.rmtree(paths.logs, ignore_errors=True)
    paths.logs.mkdir(parents=True)
    paths.data.mkdir(parents=True, exist_ok=True)
    pki = certificates.write(paths.pki.directory)
    paths.audit_policy.write_text(AUDIT_POLICY)
    paths.egress.write_text(EGRESS.format(socket=blueprint.options.pod_proxy))
    for component in CLIENTS:
        access = access_of(component.value, pki, blueprint.api_url)
        kubeconfig.write(paths.component_kubeconfig(component), access, user=component.value)
    kubeconfig.write(paths.kubeconfig, access_of("admin", pki, blueprint.api_url), user="admin")
    (paths.root / _BLUEPRINT).write_text(encode(blueprint))


def access_of(client: str, pki: certificates.Pki, server: str) -> kubeconfig.Access:
    """Return how the holder of a client certificate reaches the API server."""
    credential = kubeconfig.ClientCertificate(
        certificate_pem=pki.certificate(client).read_bytes(), key_pem=pki.key(client).read_bytes()
    )
    return kubeconfig.Access(server=server, authority_pem=pki.authority.read_bytes(), credential=credential)


def read_blueprint(root: Path) -> components.Blueprint:
    """Read what `prepare` wrote; FileNotFoundError if there is no plane in this directory."""
    return decode((root / _BLUEPRINT).read_text(), root)


def remove_blueprint(root: Path) -> None:
    (root / _BLUEPRINT).unlink(missing_ok=True)


def encode(blueprint: components.Blueprint) -> str:
    options = dataclasses.asdict(blueprint.options) | {"components": sorted(blueprint.options.components)}
    facts = {
        "identifier": blueprint.identifier,
        "ports": dataclasses.asdict(blueprint.ports),
        "options": options,
    }
    return json.dumps(facts, indent=1)


def decode(text: str, root: Path) -> components.Blueprint:
    facts = json.loads(text)
    chosen = frozenset(Component(name) for name in facts["options"]["components"])
    return components.Blueprint(
        identifier=facts["identifier"],
        paths=components.Paths(root=root),
        ports=components.Ports(**facts["ports"]),
        options=components.Options(**facts["options"] | {"components": chosen}),
    )
