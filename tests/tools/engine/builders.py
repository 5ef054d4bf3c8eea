"""Questions of the engine with everything defaulted; a test sets what matters to it."""

from typing import Any

from tools.engine.providers import calls, changes

CONFIG_MAP = "kubernetes:core/v1:ConfigMap"


def resource(resource_type: str = CONFIG_MAP, name: str = "thing") -> calls.Resource:
    return calls.Resource(urn=f"urn:pulumi:test::program::{resource_type}::{name}", type=resource_type, name=name)


def check(resource_type: str, news: dict[str, Any], old: dict[str, Any] | None = None) -> calls.Check:
    return calls.Check(resource=resource(resource_type), old_inputs=old or {}, news=news, seed=b"seed")


def diff(
    resource_type: str,
    old: dict[str, Any],
    new: dict[str, Any],
    *,
    outputs: dict[str, Any] | None = None,
    ignored: tuple[changes.Path, ...] = (),
) -> calls.Diff:
    return calls.Diff(
        resource=resource(resource_type),
        id="id",
        old_inputs=old,
        old_outputs=old if outputs is None else outputs,
        news=new,
        ignored=ignored,
    )


def create(resource_type: str, inputs: dict[str, Any], *, preview: bool = False) -> calls.Create:
    return calls.Create(resource=resource(resource_type), inputs=inputs, preview=preview)


def update(
    resource_type: str,
    old: dict[str, Any],
    new: dict[str, Any],
    *,
    outputs: dict[str, Any] | None = None,
    preview: bool = False,
) -> calls.Update:
    return calls.Update(
        resource=resource(resource_type),
        id="id",
        old_inputs=old,
        old_outputs=old if outputs is None else outputs,
        inputs=new,
        preview=preview,
    )


def read(resource_type: str, inputs: dict[str, Any], outputs: dict[str, Any] | None = None) -> calls.Read:
    return calls.Read(
        resource=resource(resource_type), id="id", old_inputs=inputs, old_outputs=inputs if outputs is None else outputs
    )


def delete(resource_type: str, inputs: dict[str, Any]) -> calls.Delete:
    return calls.Delete(resource=resource(resource_type), id="id", old_inputs=inputs, old_outputs=inputs)
