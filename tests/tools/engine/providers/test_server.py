"""The protocol's side of a stand-in: operations are journalled, errors are told, look-ups are refused."""

from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]
import pytest
from pulumi.runtime.proto import provider_pb2, status_pb2

from tools.engine.providers import calls, changes, journal, server, wire

URN = "urn:pulumi:test::program::my:Component$kubernetes:core/v1:ConfigMap::a::b"


class AbortedError(Exception):
    """What gRPC raises to leave a handler."""


class Context:
    """A call's context that remembers how it was ended."""

    def __init__(self) -> None:
        self.metadata: tuple[tuple[str, bytes], ...] = ()

    def set_trailing_metadata(self, metadata: tuple[tuple[str, bytes], ...]) -> None:
        self.metadata = metadata

    def abort(self, code: grpc.StatusCode, details: str) -> None:
        raise AbortedError(f"{code.name}: {details}")


class Provider:
    """A stand-in that answers what it was told, or raises it."""

    name = "fake"
    version = "1.2.3"
    identity = frozenset({"cluster"})

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.answer: Any = calls.State(id="id", outputs={"a": wire.Secret(1)})

    def _answer(self, asked: object) -> Any:
        self.asked.append(asked)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    configure = check = diff = create = read = update = delete = _answer

    def cancel(self) -> None: ...


@pytest.fixture
def provider() -> Provider:
    return Provider()


@pytest.fixture
def servicer(provider: Provider, tmp_path: Path) -> server.Servicer:
    book = journal.Journal(tmp_path / "journal", "fake")
    return server.Servicer(provider, book, journal.Faults(path=tmp_path / "faults"))


def test_a_creation_is_decoded_answered_and_journalled(
    servicer: server.Servicer, provider: Provider, tmp_path: Path
) -> None:
    request = provider_pb2.CreateRequest(urn=URN, properties=wire.encode({"x": wire.Secret(2)}), timeout=5)
    answer = servicer.Create(request, Context())

    resource = calls.Resource(urn=URN, type="kubernetes:core/v1:ConfigMap", name="a::b")
    assert provider.asked == [
        calls.Create(resource=resource, inputs={"x": wire.Secret(2)}, preview=False, timeout_seconds=5.0)
    ]
    assert (answer.id, wire.decode(answer.properties)) == ("id", {"a": wire.Secret(1)})
    [entry] = journal.read(tmp_path / "journal")
    assert (entry.method, entry.name, entry.changed) == ("create", "a::b", ("x",))


def test_a_preview_is_not_journalled(servicer: server.Servicer, tmp_path: Path) -> None:
    servicer.Create(provider_pb2.CreateRequest(urn=URN, preview=True), Context())
    assert journal.read(tmp_path / "journal") == ()


def test_a_refusal_reaches_the_user(servicer: server.Servicer, provider: Provider, tmp_path: Path) -> None:
    provider.answer = calls.RefusedError("no room")
    with pytest.raises(AbortedError, match="UNKNOWN: no room"):
        servicer.Create(provider_pb2.CreateRequest(urn=URN), Context())
    assert journal.read(tmp_path / "journal")[0].error


def test_what_was_made_but_is_not_well_stays_in_the_state(servicer: server.Servicer, provider: Provider) -> None:
    provider.answer = calls.UnhealthyError(calls.State(id="made", outputs={"a": 1}), ["no pods"])
    context = Context()
    with pytest.raises(AbortedError, match="no pods"):
        servicer.Create(provider_pb2.CreateRequest(urn=URN), context)

    [(key, content)] = context.metadata
    detail = provider_pb2.ErrorResourceInitFailed()
    status_pb2.Status.FromString(content).details[0].Unpack(detail)
    assert key == "grpc-status-details-bin"
    assert (detail.id, wire.decode(detail.properties), list(detail.reasons)) == ("made", {"a": 1}, ["no pods"])


def test_a_thing_that_is_gone_has_no_id(servicer: server.Servicer, provider: Provider) -> None:
    provider.answer = None
    assert servicer.Read(provider_pb2.ReadRequest(urn=URN, id="x"), Context()).id == ""


def test_a_difference_names_paths_kinds_and_replacements(servicer: server.Servicer, provider: Provider) -> None:
    found = changes.between({"a": 1, "b": {"c": 1}}, {"a": 2, "b": {}})
    provider.answer = calls.Difference(changes=found, replacing=frozenset({("a",)}), delete_first=True)
    answer = servicer.Diff(provider_pb2.DiffRequest(urn=URN), Context())

    kinds = {path: (diff.kind, diff.inputDiff) for path, diff in answer.detailedDiff.items()}
    assert kinds == {
        "a": (provider_pb2.PropertyDiff.UPDATE_REPLACE, True),
        "b.c": (provider_pb2.PropertyDiff.DELETE, True),
    }
    assert (list(answer.replaces), answer.deleteBeforeReplace) == (["a"], True)
    assert answer.changes == provider_pb2.DiffResponse.DIFF_SOME


@pytest.mark.parametrize(
    ("news", "want"),
    [
        ({"cluster": "b", "option": 1}, ["cluster"]),
        ({"cluster": "a", "option": 2}, []),
        ({"cluster": wire.UNKNOWN, "option": 1}, []),
    ],
)
def test_a_provider_is_replaced_when_it_is_another_one(
    servicer: server.Servicer, news: dict[str, Any], want: list[str]
) -> None:
    olds = wire.encode({"cluster": "a", "option": 1})
    answer = servicer.DiffConfig(provider_pb2.DiffRequest(old_inputs=olds, news=wire.encode(news)), Context())
    assert answer.changes == provider_pb2.DiffResponse.DIFF_SOME
    assert list(answer.replaces) == want


def test_no_difference_is_none(servicer: server.Servicer, provider: Provider) -> None:
    provider.answer = calls.Difference(changes=())
    assert servicer.Diff(provider_pb2.DiffRequest(urn=URN), Context()).changes == provider_pb2.DiffResponse.DIFF_NONE


def test_a_look_up_is_refused_and_journalled(servicer: server.Servicer, tmp_path: Path) -> None:
    with pytest.raises(AbortedError, match="must need no look-ups"):
        servicer.Invoke(provider_pb2.InvokeRequest(tok="aws:index/getRegion:getRegion"), Context())
    [entry] = journal.read(tmp_path / "journal")
    assert (entry.method, entry.type) == ("invoke", "aws:index/getRegion:getRegion")


def test_ignored_changes_reach_an_update_as_paths(servicer: server.Servicer, provider: Provider) -> None:
    request = provider_pb2.UpdateRequest(urn=URN, id="x", ignoreChanges=["spec.replicas", "l[0]"])
    servicer.Update(request, Context())
    assert provider.asked[0].ignored == (("spec", "replicas"), ("l", 0))


def test_a_fault_strikes_before_anything_is_done(servicer: server.Servicer, provider: Provider, tmp_path: Path) -> None:
    journal.Faults(path=tmp_path / "faults").add(journal.Fault(name="a*"))
    with pytest.raises(AbortedError, match="a test asked for it"):
        servicer.Create(provider_pb2.CreateRequest(urn=URN), Context())
    assert provider.asked == []
