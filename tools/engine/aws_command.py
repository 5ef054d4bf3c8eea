"""The `aws` command of an engine's directory: it can do `aws eks get-token`, and that is all.

A kubeconfig of the stack runs it as an exec plugin; here it hands out the administrator's certificate of the plane
that plays the cluster. It imports next to nothing, because kubectl runs it at every start.
"""

import argparse
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

API_VERSION = "client.authentication.k8s.io/v1beta1"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="aws", description="Only `eks get-token` is played here.")
    parser.add_argument("service", choices=["eks"])
    parser.add_argument("operation", choices=["get-token"])
    parser.add_argument("--cluster-name", required=True)
    for name in ("--region", "--output", "--profile", "--role-arn"):
        parser.add_argument(name, help="makes no difference here")
    chosen = parser.parse_args(arguments)
    clusters = json.loads(Path(os.environ["SLUICE_ENGINE_DIRECTORY"], "clusters.json").read_text())
    cluster = clusters.get(chosen.cluster_name, clusters.get("*"))
    if cluster is None:
        known = ", ".join(sorted(clusters)) or "none"
        print(f"aws: no API server plays the cluster {chosen.cluster_name}; there are: {known}", file=sys.stderr)
        return 1
    print(json.dumps(credential(cluster)))
    return 0


def credential(cluster: Mapping[str, str]) -> dict[str, object]:
    """Return the ExecCredential of a cluster."""
    status = {name: cluster[name] for name in ("token", "clientCertificateData", "clientKeyData") if name in cluster}
    return {"apiVersion": API_VERSION, "kind": "ExecCredential", "spec": {}, "status": status}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
