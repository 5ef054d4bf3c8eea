"""The journal names what was done and never a value; a fault strikes once."""

from pathlib import Path

import pytest

from tests.tools.engine import builders
from tools.engine.providers import calls, journal


def test_an_operation_is_written_with_its_calls_and_its_end(tmp_path: Path) -> None:
    book = journal.Journal(tmp_path / "journal", "aws")
    with book.operation("create", builders.resource(), ["data"]):
        book.call("POST /x")
    with pytest.raises(ValueError, match="no"), book.operation("delete", builders.resource()):
        raise ValueError("no")

    first, second = journal.read(tmp_path / "journal")
    assert first == journal.Entry(
        provider="aws", method="create", type=builders.CONFIG_MAP, name="thing", calls=("POST /x",), changed=("data",)
    )
    assert (second.method, second.calls, second.error) == ("delete", (), True)


def test_no_journal_is_an_empty_one(tmp_path: Path) -> None:
    assert journal.read(tmp_path / "none") == ()


def test_a_fault_strikes_what_fits_and_only_once(tmp_path: Path) -> None:
    faults = journal.Faults(path=tmp_path / "faults")
    faults.strike("create", builders.resource())
    faults.add(journal.Fault(type="kubernetes:*", name="th*"))

    faults.strike("create", builders.resource(name="other"))
    faults.strike("update", builders.resource())
    with pytest.raises(calls.RefusedError, match="a test asked for it"):
        faults.strike("create", builders.resource())
    faults.strike("create", builders.resource())
