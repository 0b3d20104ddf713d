"""The line at the bottom of a chat: who is asked, what may be done, where, and what it has cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.cli.screen.clean import columns, one_line
from repoagent.errors import RepoagentError
from repoagent.llm.naming import shown
from repoagent.llm.usage import dollars
from repoagent.repo.facts import current_branch
from repoagent.work.landing.left import left

if TYPE_CHECKING:
    from repoagent.cli.chat.chat import Chat

_BETWEEN = " · "
_NAME = 32  # columns of a model's name, or of a branch


def bar(chat: Chat, width: int) -> str:
    """The line as of now, in at most `width` columns: what fits no more is left out from its end on. It reads two small
    files and asks nobody."""
    meter = chat.means.meter
    cost = dollars(meter.cost) if meter.cost else f"{meter.usage.total:,} tokens" if meter.usage.total else ""
    parts = [_short(shown(chat.means.model.spec)), chat.mode, _short(_branch(chat)), cost, *_left(chat)]
    line = one_line(parts[0])[: max(0, width - 1)]
    for part in map(one_line, filter(None, parts[1:])):
        if columns(line) + columns(_BETWEEN) + columns(part) >= width:
            break
        line += _BETWEEN + part
    return line


def _branch(chat: Chat) -> str:
    try:
        return current_branch(chat.worktree) or "detached HEAD"
    except (RepoagentError, OSError):
        return "no branch"


def _left(chat: Chat) -> list[str]:
    try:
        count = len(left(chat.worktree, chat.home))
    except (RepoagentError, OSError):  # /diff says what is wrong with it
        return []
    return [f"{count} file{'s' * (count != 1)} uncommitted"] if count else []


def _short(name: str) -> str:
    return name if len(name) <= _NAME else f"{name[: _NAME - 1]}…"
