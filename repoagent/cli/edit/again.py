"""`repoagent edit --again`: change the prompt of the last edit, not its output."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.errors import NothingDone, UsageError

if TYPE_CHECKING:
    from repoagent.cli.screen.terminal import Terminal
    from repoagent.edit.undo import Asked
    from repoagent.repo import WorkTree

SCISSORS = "# ------------------------ >8 ------------------------"
HEAD = (
    "{request}\n\n" + SCISSORS + "\n"
    "# Above: what you asked. Change it; {what} and the new request is run on the same files.\n"
    "# Below: what was said then, for you to read. It is not sent. Empty the text above to leave all as it is.\n\n"
)


def ask_again(worktree: WorkTree, terminal: Terminal, words: tuple[str, ...]) -> tuple[str, Asked]:
    """The new request (`words` are it, where given) and the edit that it takes the place of.

    Nothing is taken back yet. Raises NothingDone when the person leaves no request, UsageError when there is nobody
    to ask or more than an instruction is given.
    """
    from repoagent.edit.undo import asked

    if len(words) > 1:
        raise UsageError(
            '--again goes to the files of the last edit: say only repoagent edit --again "INSTRUCTION"'
        )
    before = asked(worktree)
    request = words[0].strip() if words else _edited(before, terminal)
    if not request:
        raise NothingDone("the request was left empty; the edit stays as it is")
    return request, before


def _edited(before: Asked, terminal: Terminal) -> str:
    if not terminal.can_ask:
        raise UsageError(
            'there is no terminal to edit the request on: say repoagent edit --again "INSTRUCTION"'
        )
    what = f"the edit {before.edit.id} " + ("stays taken back" if before.edit.undone else "is taken back")
    head = HEAD.format(request=before.request, what=what)
    said = "\n\n".join(f"[{turn.role}]\n{turn.text}" for turn in before.turns)
    text = terminal.edit_text(head + said + "\n", ".md") or ""
    return text.partition(SCISSORS)[0].strip()
