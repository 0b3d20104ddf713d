"""What a program wishes of an edit or a run, as it is needed below: how it is committed, who agrees, who listens."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from repoagent.errors import UsageError
from repoagent.repo.options import Options

if TYPE_CHECKING:
    from repoagent.agent import LoopEvent
    from repoagent.agent.approval import Asked
    from repoagent.edit import Proposal
    from repoagent.edit.silent import Silent
    from repoagent.work.silent import SilentTalk

Decide = Callable[["Proposal"], bool]
Hear = Callable[[str], None]


def options(commit: bool | Options) -> Options:
    """How the commit is made. Raises UsageError for one that needs a terminal."""
    found = Options(no_commit=not commit) if isinstance(commit, bool) else commit
    if found.edit_message:
        raise UsageError(
            "edit_message opens an editor, and a program has no terminal for it: give the message"
        )
    return found


def dialogue(decide: Decide | None, on_note: Hear | None = None, on_text: Hear | None = None) -> Silent:
    """Who is asked about an edit, and hears of it: nobody, where a function is None."""
    from repoagent.edit.silent import Silent

    found = Silent()
    found.agree = decide or found.agree
    found.hear = on_note or found.hear
    found.on_text = on_text or found.on_text
    return found


def talk(
    decide: Decide | None,
    allow: Callable[[Asked], bool] | None,
    on_event: Callable[[LoopEvent], None] | None,
    on_note: Hear | None,
    on_text: Hear | None,
) -> SilentTalk:
    """The same for a run."""
    from repoagent.work.silent import SilentTalk

    found = SilentTalk()
    found.agree = decide or found.agree
    found.allow = allow or found.allow
    found.on_event = on_event or found.on_event
    found.hear = on_note or found.hear
    found.on_text = on_text or found.on_text
    return found
