"""How a run ended, for a person and as JSON."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING

from repoagent.cli.landing.outcome import show_check, spending
from repoagent.cli.screen.clean import clean
from repoagent.errors import Busy, Exit, NothingDone, RepoagentError

if TYPE_CHECKING:
    from repoagent.cli.screen.terminal import Terminal
    from repoagent.llm import Usage
    from repoagent.repo import WorkTree
    from repoagent.work import RunOutcome
    from repoagent.work.home import Home

VERSION = 1
SHOWN = 8  # files
STAT_FILES = 20  # of a diffstat


def show_run(
    worktree: WorkTree, outcome: RunOutcome, terminal: Terminal, *, as_json: bool, answered: bool = False
) -> None:
    """Print the run's last word, its commits, and what it used. What was `answered` as it came is not said again."""
    if as_json:
        terminal.done(json.dumps(as_object(outcome), indent=2) + "\n")
        return
    if outcome.words and not terminal.tells:  # where they are shown as they come
        terminal.note(outcome.words)
    if outcome.text.strip() and not (answered and terminal.shows):
        terminal.reply(outcome.text.strip() + "\n", done=True)
    show_commits(worktree, outcome, terminal)
    if outcome.left:
        names = ", ".join(map(clean, outcome.left[:SHOWN])) + (" …" if len(outcome.left) > SHOWN else "")
        terminal.note(f"written, not committed: {names}")
    if outcome.kind == "unfinished":
        terminal.note(
            f'not finished: the model stopped with words. `repoagent run --resume {outcome.name} "WORDS"` answers it'
        )
    terminal.note(f"{outcome.name} · {spent(outcome)}", "dim")


def show_commits(worktree: WorkTree, outcome: RunOutcome, terminal: Terminal) -> None:
    """What the check said, the commits with what they change, and how to add the files that they leave out."""
    if outcome.check is not None and outcome.commits:
        show_check(outcome.check, terminal)
    for commit in outcome.commits:
        show_commit(worktree, commit, terminal)
    if outcome.left_out:
        names = ", ".join(map(clean, outcome.left_out[:SHOWN]))
        more = f" and {len(outcome.left_out) - SHOWN} more" if len(outcome.left_out) > SHOWN else ""
        add = shlex.join(["git", "add", "--", *outcome.left_out[:SHOWN]])
        add += " && git commit --amend --no-edit" if outcome.commits else ""
        terminal.note(f"new, and not in the commit: {names}{more}\n  to add: {clean(add)}")


def ended_with(outcome: RunOutcome) -> Exit:
    """What the process returns after it."""
    return Exit.NOTHING if outcome.kind == "unfinished" else Exit.DONE


def show_commit(worktree: WorkTree, commit: str, terminal: Terminal) -> None:
    """A commit in a line: its branch, its subject, how much it changes."""
    branch, subject, stat = described(worktree, commit)
    terminal.note(f"[{f'{branch} ' if branch else ''}{commit[:7]}] {subject} · {stat}", "yellow")
    if terminal.tells:
        for line in diffstat(worktree, commit, terminal):
            terminal.note(line)


def diffstat(worktree: WorkTree, commit: str, terminal: Terminal) -> list[str]:
    """The lines of `git show --stat`, without the last, which counts them all."""
    from repoagent.repo.run import git

    stat = f"--stat={terminal.width},{terminal.width * 2 // 3},{STAT_FILES}"
    out = git(worktree.top, "show", stat, "--format=", "--end-of-options", commit, "--")
    return out.decode("utf-8", "replace").rstrip("\n").split("\n")[:-1]


def described(worktree: WorkTree, commit: str) -> tuple[str | None, str, str]:
    """The branch that a commit is the tip of (None: of none), its subject, how much it changes ("2 files +3 -1")."""
    from repoagent.repo.run import git

    out = git(worktree.top, "show", "--root", "--numstat", "--format=%s", "--end-of-options", commit, "--")
    subject, _, rows = out.decode("utf-8", "replace").partition("\n")
    counts = [row.split("\t") for row in rows.split("\n") if row.count("\t") >= 2]
    added, removed = (sum(int(row[at]) for row in counts if row[at].isdecimal()) for at in (0, 1))
    files = f"{len(counts)} file{'s' * (len(counts) != 1)}"
    wanted = ("--count=1", "--format=%(refname:short)", f"--points-at={commit}", "refs/heads")
    tips = git(worktree.top, "for-each-ref", *wanted)
    branch = tips.decode("utf-8", "replace").strip()
    return branch or None, subject, f"{files} +{added} -{removed}"


def spent(outcome: RunOutcome) -> str:
    """Calls, tokens, cost and seconds, in one line."""
    calls = f"{outcome.turns} call{'s' * (outcome.turns != 1)}"
    return f"{calls} · {spending(outcome.usage, outcome.cost, outcome.seconds)}"


def as_object(outcome: RunOutcome) -> dict[str, object]:
    """The outcome as JSON data; its format has a version."""
    return {
        "version": VERSION,
        "outcome": outcome.kind,
        "run": outcome.name,
        "text": outcome.text,
        "words": outcome.words,
        "messages": list(outcome.messages),
        "commits": list(outcome.commits),
        "left": list(outcome.left),
        "left_out": list(outcome.left_out),
        "check": {"command": outcome.check.command, "seconds": round(outcome.check.seconds, 3)}
        if outcome.check
        else None,
        "model": outcome.model,
        "usage": used(outcome.usage, outcome.turns),
        "cost": outcome.cost,
        "seconds": round(outcome.seconds, 3),
    }


def used(usage: Usage, calls: int) -> dict[str, object]:
    """What was used, as JSON data."""
    return {
        "input": usage.input,
        "output": usage.output,
        "cache_read": usage.cache_read,
        "cache_write": usage.cache_write,
        "estimated": usage.estimated,
        "calls": calls,
    }


def say_what_is_kept(worktree: WorkTree, name: str, terminal: Terminal, error: BaseException) -> bool:
    """How a run that did not come to its end is gone on with, and what it has left in the files. Whether that is all
    there is to say: of an interruption."""
    from repoagent.repo import layout
    from repoagent.work.home import Home, Stopped
    from repoagent.work.landing.left import left

    home = Home(layout(worktree), name)
    if isinstance(error, (Busy, NothingDone)) or not _can_go_on(home):
        return False
    if isinstance(error, Stopped):  # its exit code has no sentence of its own
        terminal.note(str(error))
    changed = left(worktree, home)
    if changed:
        more = f" and {len(changed) - SHOWN} more" if len(changed) > SHOWN else ""
        names = ", ".join(map(clean, changed[:SHOWN])) + more
        terminal.note(f"changed and not committed: {names} (`repoagent runs restore {name}` takes it back)")
    terminal.note(f"`repoagent run --resume {name}` goes on from here")
    return isinstance(error, (KeyboardInterrupt, Stopped))


def _can_go_on(home: Home) -> bool:
    """Whether there is a conversation that can be read, and that is the person's own."""
    from repoagent.llm.conversation import read
    from repoagent.work.home import refuse_foreign

    try:
        refuse_foreign(home)
        return read(home.conversation) is not None
    except RepoagentError:
        return False
