"""A commit of the run's changes, noted before it is made: a kill after it neither loses it nor makes it twice."""

from __future__ import annotations

from repoagent.repo.undo import list_edits
from repoagent.store import document
from repoagent.work.changes.ledger import Ledger

VERSION = 1
_FILE = "landing.json"


def will_commit(ledger: Ledger, edit_id: str, mark: str = "") -> None:
    """To be called before the edit `edit_id` is committed: of the one edit `mark`, or, without that, of all changes."""
    _write(ledger, edit_id, mark, settled=False)


def committed(ledger: Ledger, edit_id: str, mark: str = "") -> None:
    """It is made, and the changes that are in it are not to be committed any more."""
    if mark:
        ledger.edit = mark
        ledger.drop(())
    else:
        ledger.drop([change.name for change in ledger.changes])
    _write(ledger, edit_id, mark, settled=True)


def settle_commit(ledger: Ledger) -> str | None:
    """After a kill: the last commit of the run, None where it has none. What is in it leaves the ledger.

    To be called when the journals are settled, for those say which commits there are.
    """
    value = document.read(ledger.folder / _FILE, version=VERSION)
    if value is None:
        return None
    name = value.get("edit")
    made = next((edit for edit in list_edits(ledger.worktree) if edit.id == name), None)
    if made is None or made.commit is None:
        return None
    if value.get("settled") is not True:
        committed(ledger, made.id, str(value.get("mark", "")))
    return None if made.undone else made.commit


def _write(ledger: Ledger, edit_id: str, mark: str, *, settled: bool) -> None:
    value = {"edit": edit_id, "mark": mark, "settled": settled}
    document.write(ledger.folder / _FILE, value, version=VERSION)
