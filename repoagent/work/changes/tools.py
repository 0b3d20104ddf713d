"""The actions `keep` and `restore`: which files are a part of the run's change."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from repoagent.agent import Action, Observation, Tool
from repoagent.errors import RepoagentError
from repoagent.repo import FileChange, Moved
from repoagent.work.changes.back import put_back, said_of
from repoagent.work.changes.ledger import Ledger


def change_tools(
    ledger: Ledger, write: Callable[[Sequence[FileChange]], None], withdraw: Callable[[str], str]
) -> tuple[Tool, ...]:
    """`keep` and `restore`. `write` writes changes to the work tree, all of them or none; `withdraw` drops what is kept
    of a refused edit where a path means that, and says so."""

    def keep(action: Action) -> Observation:
        path = _path(action)
        if any(
            path in (change.path, change.old_path) for change in ledger.changes
        ):  # before a kill, or twice
            return Observation("keep", f"{path} is a part of your change.")
        below = [
            one.name for one in ledger.candidates if path and one.name.startswith(path.rstrip("/") + "/")
        ]
        if not ledger.keep([path, *below]):
            known = ", ".join(change.name for change in ledger.candidates)
            return Observation(
                "keep", f"{path} is none of the files to keep" + (f": {known}" if known else "."), ok=False
            )
        files = f" ({len(below)} files)" if len(below) > 1 else ""
        return Observation("keep", f"{path}{files} is a part of your change now.")

    def restore(action: Action) -> Observation:
        path = _path(action)
        if said := withdraw(path):
            return Observation("restore", said)
        if ledger.of(path) is None:
            return Observation("restore", f"You have not changed {path}.", ok=False)
        try:
            left = put_back(ledger, [path], write)
        except Moved:
            return Observation("restore", f"{path} is being saved by somebody else: try again.", ok=False)
        except RepoagentError as error:
            return Observation("restore", str(error), ok=False)
        if left:
            why = f"{said_of(left)}: the person has changed the same lines, and it is left as it is."
            return Observation("restore", f"{why} Take your change out by an edit.", ok=False)
        return Observation("restore", f"{path} is as it was before you changed it.")

    return (
        Tool(
            "keep",
            '<keep path="FILE"/> adds a file or folder that a command made to your change.',
            keep,
        ),
        Tool("restore", '<restore path="FILE"/> takes back all your changes of a file.', restore),
    )


def _path(action: Action) -> str:
    return action.args.get("path", "").strip().removeprefix("./")
