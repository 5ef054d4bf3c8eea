"""The command line of each component follows from the blueprint alone."""

import re
import sys
from pathlib import Path

import pytest
import yaml

from tests.tools.local import builders
from tools.local import components
from tools.local.components import Component, Options


@pytest.mark.parametrize("component", Component)
def test_every_server_listens_on_loopback_alone(component: Component) -> None:
    text = " ".join(components.arguments(component, builders.blueprint()))
    listening = re.findall(r"(?:--bind-address=|--server-address=|--listen-\S+-urls=http://|-H )([\d.]+)", text)
    servers = set(Component) - {Component.NODE_REGISTRAR, Component.KUBERAY}
    assert set(listening) == ({"127.0.0.1"} if component in servers else set())


@pytest.mark.parametrize("component", Component)
def test_every_component_is_started_and_stopped_once(component: Component) -> None:
    for order in (components.START_ORDER, components.STOP_ORDER):
        assert [one for wave in order for one in wave].count(component) == 1


def test_the_api_server_keeps_rbac_and_service_account_admission() -> None:
    arguments = components.arguments(Component.API_SERVER, builders.blueprint())
    assert "--authorization-mode=Node,RBAC" in arguments
    assert not any(argument.startswith("--disable-admission-plugins") for argument in arguments)


def test_an_audit_log_is_written_only_on_request() -> None:
    def audits(options: Options) -> list[str]:
        arguments = components.arguments(Component.API_SERVER, builders.blueprint(options))
        return [argument for argument in arguments if "audit" in argument]

    assert audits(Options()) == []
    assert "--audit-log-path=/plane/logs/audit.jsonl" in audits(Options(audit=True))


def test_fast_node_failure_and_qps_reach_the_controllers() -> None:
    options = Options(fast_node_failure=True, controller_qps=50, scheduler_qps=5000)
    controllers = components.arguments(Component.CONTROLLER_MANAGER, builders.blueprint(options))
    assert {"--node-monitor-grace-period=12s", "--kube-api-qps=50", "--kube-api-burst=100"} <= set(controllers)
    scheduler = components.arguments(Component.SCHEDULER, builders.blueprint(options))
    assert {"--kube-api-qps=5000", "--kube-api-burst=10000"} <= set(scheduler)
    usual = components.arguments(Component.CONTROLLER_MANAGER, builders.blueprint())
    assert not any("node-monitor" in argument for argument in usual)


def test_some_are_started_by_this_interpreter_and_the_rest_are_programs() -> None:
    programs = {str(component): Path("/tools") / component for component in components.BUILT}
    commands = {one: components.command(one, builders.blueprint(), programs)[0] for one in Component}
    assert {commands.pop(component) for component in components.IN_PYTHON} == {sys.executable}
    assert commands == {component: f"/tools/{component}" for component in Component if component in commands}


def test_rays_operator_is_there_for_those_who_ask() -> None:
    assert Component.KUBERAY not in Options().components
    assert Options().components | {Component.KUBERAY} == set(Component)


def test_the_registrar_is_told_where_and_how_fast() -> None:
    options = Options(region="us-east-2", boot_seconds=4.5, registrar_interval_seconds=0.1)
    arguments = components.arguments(Component.NODE_REGISTRAR, builders.blueprint(options))
    want = {"--aws-endpoint=http://127.0.0.1:20007", "--region=us-east-2", "--boot-seconds=4.5", "--interval=0.1"}
    assert want <= set(arguments)


def test_clients_are_pointed_at_this_plane_and_past_any_proxy() -> None:
    variables = components.client_environment(builders.blueprint())
    assert variables["KUBECONFIG"] == "/plane/kubeconfig"
    assert variables["AWS_ENDPOINT_URL"] == "http://127.0.0.1:20007"
    assert "127.0.0.1" in variables["NO_PROXY"]


@pytest.mark.parametrize("path", sorted(components.STAGES.glob("*.yaml")), ids=lambda path: path.stem)
def test_each_stage_is_one_object_named_like_its_file(path: Path) -> None:
    stage = yaml.safe_load(path.read_text())
    assert (stage["kind"], stage["metadata"]["name"]) == ("Stage", path.stem)
    assert f"--config={path}" in components.arguments(Component.KWOK, builders.blueprint())
