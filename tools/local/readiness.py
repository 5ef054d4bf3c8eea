"""Decide when a plane is ready: one check per component, all asked in turn until all said yes or time is up."""

import http.client
import ssl
from collections.abc import Callable, Mapping

from tools.local import api, components
from tools.local.components import Component

CHECK_TIMEOUT_SECONDS = 2.0

Check = Callable[[], bool]


def checks(blueprint: components.Blueprint, admin: api.Api) -> Mapping[Component, Check]:
    """Return a check for each chosen component that serves something; the rest only have to be alive."""
    ports = blueprint.ports
    tls = api.tls_context(admin.access)
    all_checks: dict[Component, Check] = {
        Component.API_SERVER: lambda: _answers_ready(admin),
        Component.CONTROLLER_MANAGER: lambda: (
            _answers(ports.controller_manager, "/healthz", tls) and _has_default_account(admin)
        ),
        Component.SCHEDULER: lambda: _answers(ports.scheduler, "/readyz", tls),
        Component.KWOK: lambda: _answers(ports.kwok, "/healthz", None),
        Component.MOTO: lambda: _answers(ports.moto, "/moto-api/", None),
    }
    return {component: check for component, check in all_checks.items() if component in blueprint.options.components}


def _answers_ready(admin: api.Api) -> bool:
    try:
        return admin.request("GET", "/readyz").ok
    except api.ApiError:
        return False


def _has_default_account(admin: api.Api) -> bool:
    """Pods are refused until the controllers made the namespace's ServiceAccount."""
    try:
        return admin.request("GET", "/api/v1/namespaces/default/serviceaccounts/default").ok
    except api.ApiError:
        return False


def _answers(port: int, path: str, tls: ssl.SSLContext | None) -> bool:
    connection = (
        http.client.HTTPSConnection("127.0.0.1", port, timeout=CHECK_TIMEOUT_SECONDS, context=tls)
        if tls
        else http.client.HTTPConnection("127.0.0.1", port, timeout=CHECK_TIMEOUT_SECONDS)
    )
    try:
        connection.request("GET", path)
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
