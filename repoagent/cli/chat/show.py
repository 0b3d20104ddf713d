"""What a person sees of a turn: the model's words, a line for each action, how it ended."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from repoagent.cli.run.outcome import as_object, show_commits, spent
from repoagent.cli.screen.clean import clean, columns, one_line
from repoagent.cli.screen.hush import collect
from repoagent.cli.screen.reply import Fold, Words
from repoagent.cli.screen.working import Working

if TYPE_CHECKING:
    from repoagent.cli.screen.terminal import Terminal
    from repoagent.llm import Turn
    from repoagent.repo import WorkTree
    from repoagent.work import RunOutcome

SHOWN = 8  # files
_RECALLED = 8  # lines of the last answer
_ASKED = 3  # lines of the last words of the person


class Speaking(Working):
    """The model's words are what a chat is about: they are not dim."""

    styles = ()

    def text(self, piece: str) -> None:
        collect()
        super().text(piece)

    def words(self, piece: str) -> None:
        collect()
        super().words(piece)


def show_turn(
    worktree: WorkTree, outcome: RunOutcome, terminal: Terminal, *, as_json: bool, answered: bool
) -> None:
    """Print the last word of a turn unless it was `answered` as it came, its commits, what is left, what it took."""
    if as_json:
        terminal.result(json.dumps(as_object(outcome)) + "\n")
        return
    if outcome.text.strip() and not (answered and terminal.shows):
        terminal.reply(outcome.text.strip() + "\n")
    show_commits(worktree, outcome, terminal)
    show_left(outcome.left, terminal)
    if terminal.tells:
        terminal.note(f"{spent(outcome)}\n", "dim")


def show_left(paths: tuple[str, ...], terminal: Terminal) -> None:
    """What is written and not committed, and what can be done about it."""
    if not paths:
        return
    names = ", ".join(map(clean, paths[:SHOWN])) + (" …" if len(paths) > SHOWN else "")
    more = ": /diff shows it, /undo takes it back" if terminal.can_ask else ""
    terminal.note(f"written, not committed: {names}{more}")


def recap(turns: tuple[Turn, ...], terminal: Terminal) -> None:
    """The last turn of a chat that is gone on with: what was asked, and the end of what was answered."""
    from repoagent.agent.state import is_beside

    asked = [at for at, turn in enumerate(turns) if turn.role == "user" and not is_beside(turn)]
    if not asked:
        return
    said = [line for line in turns[asked[-1]].text.strip().split("\n") if line.strip()]
    for line in said[:_ASKED]:
        terminal.note(f"> {_cut(line, terminal.width - 2)}", "dim")
    if len(said) > _ASKED:
        terminal.note("> …", "dim")
    replies = [turn.text for turn in turns[asked[-1] :] if turn.role == "assistant"]
    markdown = terminal.markdown("dim", aside=True)
    lines = (markdown.feed(words_of(replies[-1]) if replies else "(no answer yet)") + markdown.rest()).split(
        "\n"
    )
    lines = lines if lines[-1] else lines[:-1]
    if len(lines) > _RECALLED:
        lines = ["…", *lines[-_RECALLED:]]
    terminal.styled("".join(f"{line}\n" for line in lines), aside=True)


def words_of(reply: str) -> str:
    """The words of a whole reply, without the actions and patches in it."""
    words = Words(ends=True)
    return (words.feed(reply) + words.rest()).strip() or "(a change, or a look around)"


def folded(text: str, width: int) -> list[str]:
    """`text` in lines of at most `width` columns."""
    fold = Fold(max(20, width))
    return (fold.feed(text) + fold.rest()).split("\n")


def _cut(line: str, width: int) -> str:
    shown = one_line(line)
    return shown if columns(shown) <= width else shown[: max(10, width - 2)] + " …"
