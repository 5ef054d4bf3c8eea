"""The dashboard and alert rules in the cluster, where Grafana and Prometheus look for them."""

from dataclasses import dataclass
from typing import Final

import pulumi
import pulumi_kubernetes as k8s

from autoscaler.api.manifests import Manifest
from components import kube
from components.config.clusters import Cluster
from components.eks import cluster
from components.monitoring import alert_rules, dashboard_panels, promql
from components.place import Place
from components.runtime import deployment

DASHBOARD_LABEL: Final = {"grafana_dashboard": "1"}
"""What Grafana's sidecar looks for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardsArgs:
    """Whose dashboard."""

    config: Cluster
    place: Place
    access: cluster.Access
    namespace: pulumi.Resource
    """The runtime's namespace, where they live."""


class Dashboards(pulumi.ComponentResource):
    """A dashboard and alert rules for one runtime."""

    url: str | None
    """The dashboard's address; None where the config does not say where Grafana is."""

    def __init__(self, name: str, args: DashboardsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("sluice:index:Dashboards", name, None, opts)
        config, namespace = args.config.autoscaler, args.config.autoscaler.namespace
        metadata = deployment.metadata(config)
        child = pulumi.ResourceOptions(
            parent=self, provider=args.access.kubernetes, depends_on=[*args.access.ready, args.namespace]
        )
        runtime = promql.Runtime(cluster=args.place.cluster, namespace=namespace, deployment=config.name)
        dashboard = dashboard_panels.dashboard(runtime)
        kube.make(
            k8s.core.v1.ConfigMap,
            f"{name}.dashboard",
            child,
            metadata={
                **metadata,
                "name": f"{config.name}-dashboard",
                "labels": {**metadata["labels"], **DASHBOARD_LABEL},
            },
            data={f"{dashboard_panels.uid(args.place.cluster)}.json": dashboard_panels.text(dashboard)},
        )
        groups = {"groups": alert_rules.rule_groups(runtime, args.config.monitoring.runbook_url)}
        named = {**metadata, "name": f"{config.name}-alerts"}
        if args.config.monitoring.prometheus_operator:
            self._operated(f"{name}.alerts", args, child, kind="PrometheusRule", spec=groups, named=named)
            scraped = deployment.service_monitor(config)
            self._operated(f"{name}.metrics", args, child, kind="ServiceMonitor", spec=scraped, named=metadata)
        else:
            data = {"sluice.rules.yaml": dashboard_panels.text(groups)}
            kube.make(k8s.core.v1.ConfigMap, f"{name}.alerts", child, metadata=named, data=data)
        grafana = args.config.monitoring.grafana_url
        self.url = dashboard_panels.url(grafana, args.place.cluster) if grafana else None
        self.register_outputs({"url": self.url})

    def _operated(
        self,
        name: str,
        args: DashboardsArgs,
        opts: pulumi.ResourceOptions,
        *,
        kind: str,
        spec: Manifest,
        named: Manifest,
    ) -> None:
        """Make an object of the Prometheus operator, with the labels that it selects by."""
        labels = {**args.config.monitoring.operator_labels, **named["labels"]}
        kube.make(
            k8s.apiextensions.CustomResource,
            name,
            opts,
            api_version="monitoring.coreos.com/v1",
            kind=kind,
            metadata={**named, "labels": labels},
            spec=spec,
        )
