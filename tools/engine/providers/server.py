"""The resource provider protocol on one side, a stand-in's Python methods on the other.

Every question is decoded, handed on and its answer encoded; operations are journalled, faults strike here. Nothing
here knows a resource type. Look-ups (invokes) are refused: a preview of the program must need none.
"""
# ruff: noqa: N802 - the protocol names the methods

import contextlib
from collections.abc import Iterator

import grpc  # type: ignore[import-untyped]
from google.protobuf import empty_pb2  # type: ignore[import-untyped]
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc, status_pb2

from tools.engine.providers import calls, changes, journal, wire

_KINDS = {
    (changes.Kind.ADD, False): provider_pb2.PropertyDiff.ADD,
    (changes.Kind.ADD, True): provider_pb2.PropertyDiff.ADD_REPLACE,
    (changes.Kind.DELETE, False): provider_pb2.PropertyDiff.DELETE,
    (changes.Kind.DELETE, True): provider_pb2.PropertyDiff.DELETE_REPLACE,
    (changes.Kind.UPDATE, False): provider_pb2.PropertyDiff.UPDATE,
    (changes.Kind.UPDATE, True): provider_pb2.PropertyDiff.UPDATE_REPLACE,
}


class Servicer(provider_pb2_grpc.ResourceProviderServicer):
    """Serves one stand-in."""

    def __init__(self, provider: calls.Provider, book: journal.Journal, faults: journal.Faults) -> None:
        self._provider = provider
        self._journal = book
        self._faults = faults

    def Handshake(self, request: object, context: grpc.ServicerContext) -> provider_pb2.ProviderHandshakeResponse:
        del request, context
        return provider_pb2.ProviderHandshakeResponse(accept_secrets=True)

    def GetPluginInfo(self, request: object, context: grpc.ServicerContext) -> plugin_pb2.PluginInfo:
        del request, context
        return plugin_pb2.PluginInfo(version=self._provider.version)

    def GetSchema(self, request: object, context: grpc.ServicerContext) -> provider_pb2.GetSchemaResponse:
        del request, context
        return provider_pb2.GetSchemaResponse(schema=f'{{"name": "{self._provider.name}"}}')

    def CheckConfig(
        self, request: provider_pb2.CheckRequest, context: grpc.ServicerContext
    ) -> provider_pb2.CheckResponse:
        del context
        return provider_pb2.CheckResponse(inputs=request.news)

    def DiffConfig(self, request: provider_pb2.DiffRequest, context: grpc.ServicerContext) -> provider_pb2.DiffResponse:
        del context
        news = wire.decode(request.news)
        found = changes.between(wire.decode(request.old_inputs), news)
        known = {(name,) for name in self._provider.identity if wire.plain(news.get(name)) is not wire.UNKNOWN}
        return _difference(
            calls.Difference(changes=found, replacing=frozenset(known & {change.path for change in found}))
        )

    def Configure(
        self, request: provider_pb2.ConfigureRequest, context: grpc.ServicerContext
    ) -> provider_pb2.ConfigureResponse:
        with _answering(context):
            self._provider.configure(wire.decode(request.args))
        return provider_pb2.ConfigureResponse(acceptSecrets=True, supportsPreview=True)

    def Check(self, request: provider_pb2.CheckRequest, context: grpc.ServicerContext) -> provider_pb2.CheckResponse:
        with _answering(context):
            answer = self._provider.check(
                calls.Check(
                    resource=_resource(request),
                    old_inputs=wire.decode(request.olds),
                    news=wire.decode(request.news),
                    seed=request.randomSeed,
                )
            )
        return provider_pb2.CheckResponse(
            inputs=wire.encode(answer.inputs),
            failures=[
                provider_pb2.CheckFailure(property=failure.path, reason=failure.reason) for failure in answer.failures
            ],
        )

    def Diff(self, request: provider_pb2.DiffRequest, context: grpc.ServicerContext) -> provider_pb2.DiffResponse:
        with _answering(context):
            answer = self._provider.diff(
                calls.Diff(
                    resource=_resource(request),
                    id=request.id,
                    old_inputs=wire.decode(request.old_inputs),
                    old_outputs=wire.decode(request.olds),
                    news=wire.decode(request.news),
                    ignored=tuple(changes.parsed(path) for path in request.ignoreChanges),
                )
            )
        return _difference(answer)

    def Create(self, request: provider_pb2.CreateRequest, context: grpc.ServicerContext) -> provider_pb2.CreateResponse:
        asked = calls.Create(
            resource=_resource(request),
            inputs=wire.decode(request.properties),
            preview=request.preview,
            timeout_seconds=request.timeout or None,
        )
        with _answering(context), self._operation("create", asked):
            state = self._provider.create(asked)
        return provider_pb2.CreateResponse(id=state.id, properties=wire.encode(state.outputs))

    def Read(self, request: provider_pb2.ReadRequest, context: grpc.ServicerContext) -> provider_pb2.ReadResponse:
        asked = calls.Read(
            resource=_resource(request),
            id=request.id,
            old_inputs=wire.decode(request.inputs),
            old_outputs=wire.decode(request.properties),
        )
        with _answering(context), self._journal.operation("read", asked.resource):
            state = self._provider.read(asked)
        if state is None:
            return provider_pb2.ReadResponse()
        return provider_pb2.ReadResponse(
            id=state.id, properties=wire.encode(state.outputs), inputs=wire.encode(state.inputs)
        )

    def Update(self, request: provider_pb2.UpdateRequest, context: grpc.ServicerContext) -> provider_pb2.UpdateResponse:
        asked = calls.Update(
            resource=_resource(request),
            id=request.id,
            old_inputs=wire.decode(request.old_inputs),
            old_outputs=wire.decode(request.olds),
            inputs=wire.decode(request.news),
            preview=request.preview,
            ignored=tuple(changes.parsed(path) for path in request.ignoreChanges),
            timeout_seconds=request.timeout or None,
        )
        with _answering(context), self._operation("update", asked):
            state = self._provider.update(asked)
        return provider_pb2.UpdateResponse(properties=wire.encode(state.outputs))

    def Delete(self, request: provider_pb2.DeleteRequest, context: grpc.ServicerContext) -> empty_pb2.Empty:
        asked = calls.Delete(
            resource=_resource(request),
            id=request.id,
            old_inputs=wire.decode(request.old_inputs),
            old_outputs=wire.decode(request.properties),
            timeout_seconds=request.timeout or None,
        )
        with _answering(context), self._journal.operation("delete", asked.resource):
            self._faults.strike("delete", asked.resource)
            self._provider.delete(asked)
        return empty_pb2.Empty()

    def Invoke(self, request: provider_pb2.InvokeRequest, context: grpc.ServicerContext) -> provider_pb2.InvokeResponse:
        wanted = calls.Resource(urn="", type=request.tok, name="")
        with _answering(context), self._journal.operation("invoke", wanted):
            raise calls.RefusedError(
                f"the program looked up {request.tok}: a preview must need no look-ups; "
                "make what it looked for part of the stack's configuration"
            )

    def Cancel(self, request: object, context: grpc.ServicerContext) -> empty_pb2.Empty:
        del request, context
        self._provider.cancel()
        return empty_pb2.Empty()

    @contextlib.contextmanager
    def _operation(self, method: str, asked: calls.Create | calls.Update) -> Iterator[None]:
        """Journal what is really done; a preview does nothing."""
        if asked.preview:
            yield
            return
        changed = [change.text for change in asked.changes] if isinstance(asked, calls.Update) else sorted(asked.inputs)
        with self._journal.operation(method, asked.resource, changed):
            self._faults.strike(method, asked.resource)
            yield


def _resource(
    request: provider_pb2.CheckRequest
    | provider_pb2.DiffRequest
    | provider_pb2.CreateRequest
    | provider_pb2.ReadRequest
    | provider_pb2.UpdateRequest
    | provider_pb2.DeleteRequest,
) -> calls.Resource:
    """Name the resource by its URN, of which older requests had nothing else."""
    kind, _, name = request.urn.split("::", 2)[2].partition("::")
    return calls.Resource(urn=request.urn, type=kind.rpartition("$")[2], name=name)


def _difference(found: calls.Difference) -> provider_pb2.DiffResponse:
    replaces = {change.text for change in found.changes if change.path in found.replacing}
    return provider_pb2.DiffResponse(
        changes=provider_pb2.DiffResponse.DIFF_SOME if found.changes else provider_pb2.DiffResponse.DIFF_NONE,
        replaces=sorted({str(path[0]) for path in found.replacing}),
        diffs=sorted({str(change.path[0]) for change in found.changes}),
        detailedDiff={
            change.text: provider_pb2.PropertyDiff(kind=_KINDS[change.kind, change.text in replaces], inputDiff=True)
            for change in found.changes
        },
        hasDetailedDiff=True,
        deleteBeforeReplace=found.delete_first,
    )


@contextlib.contextmanager
def _answering(context: grpc.ServicerContext) -> Iterator[None]:
    """Turn the errors of a stand-in into what the engine understands."""
    try:
        yield
    except calls.UnhealthyError as error:
        detail = provider_pb2.ErrorResourceInitFailed(
            id=error.state.id,
            properties=wire.encode(error.state.outputs),
            inputs=wire.encode(error.state.inputs),
            reasons=error.reasons,
        )
        status = status_pb2.Status(code=grpc.StatusCode.UNKNOWN.value[0], message=str(error))
        status.details.add().Pack(detail)
        context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
        context.abort(grpc.StatusCode.UNKNOWN, str(error))
    except calls.RefusedError as error:
        context.abort(grpc.StatusCode.UNKNOWN, str(error))
