"""A file's recent commits as text: for the prompt, for people and as data."""

from __future__ import annotations

from collections.abc import Sequence

from repoagent.history.parse import FileCommit
from repoagent.history.recent import FileHistory

AUTHOR_WIDTH = 30
SUBJECT_WIDTH = 100
PATH_WIDTH = 200


def history_block(commits: Sequence[FileCommit], *, partial: bool = False, limit: int = 20) -> str:
    """One line per commit, newest first: date, short id, author, subject, lines added and removed; "" for
    none.

    Authors and subjects are other people's data: control and format characters are replaced and each is cut
    at a width, so a line can't forge another one and the block stays below `limit` lines of about 180
    characters.
    """
    lines = [_line(commit) for commit in commits[:limit]]
    if partial or len(commits) > limit:
        lines.append("(older commits left out)")
    return "".join(line + "\n" for line in lines)


def render(history: FileHistory) -> str:
    """The history for a terminal or a pipe: the block, with the old name where the file had another."""
    lines: list[str] = []
    name = history.path
    for commit in history.commits:
        if commit.path != name:
            name = commit.path
            lines.append(f"as {plain(name, PATH_WIDTH)}:")
        lines.append(_line(commit))
    if history.partial:
        lines.append("(older commits left out)")
    return "".join(line + "\n" for line in lines)


def to_dict(history: FileHistory) -> dict[str, object]:
    """The history as plain data for `--json`. Paths keep bytes that are no UTF-8 as surrogate escapes."""
    return {
        "version": 1,
        "path": history.path,
        "partial": history.partial,
        "commits": [
            {
                "commit": commit.commit,
                "short": commit.short,
                "author": commit.author,
                "date": commit.date,
                "subject": commit.subject,
                "added": commit.added,
                "removed": commit.removed,
                "path": commit.path,
                "status": commit.status,
            }
            for commit in history.commits
        ],
    }


def plain(text: str, width: int) -> str:
    """`text` on one line of at most `width` characters, without anything that a terminal obeys."""
    line = " ".join(text[: width * 4].split())
    line = "".join(c if c.isprintable() else "�" for c in line)
    return line if len(line) <= width else line[: width - 1] + "…"


def _line(commit: FileCommit) -> str:
    counts = "" if commit.added is None or commit.removed is None else f", +{commit.added} −{commit.removed}"
    author, subject = plain(commit.author, AUTHOR_WIDTH), plain(commit.subject, SUBJECT_WIDTH)
    when, short = plain(commit.date[:10], 10), plain(commit.short, 16)
    return f"{when} {short} {author}: {subject or '(no subject)'}{counts}"
