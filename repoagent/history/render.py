"""Neighbors, file history and commits as text and data, for tables, pictures and prompts."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from repoagent.dataclass import dataclass
from repoagent.display_text import list_some
from repoagent.history.log import LOG, git_offline

if TYPE_CHECKING:
    from repoagent.history.cochange import Neighbor
    from repoagent.history.commit_details import HistoryStep
    from repoagent.history.file_history import Authors, HistoryReport
    from repoagent.history.neighbors import Neighborhood

Rate = Literal["high", "medium", "low"]

_WHY = {
    "together": "together",
    "through": "shared partners",
    "recent": "current work",
    "name": "like name",
    "folder": "same folder",
}
_WHY_SHORT = {**_WHY, "through": "partners", "recent": "current", "name": "name", "folder": "folder"}
_HIGH, _MEDIUM = 0.5, 0.2
_LEAST_SCALE = 0.2  # a best score below this is not drawn as if it were a sure one
_NAMED = 3
_MANY, _LOW = 10, 0.1  # commits, and the score, of a weak pair


def day(seconds: int | None) -> str:
    if seconds is None:
        return ""
    try:
        return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%d")
    except (OverflowError, ValueError, OSError):  # git accepts dates that datetime does not
        return "?"


def together_rate(together: int, commits: int) -> Rate | None:
    """How regularly two files change together, in one word; None if they never did. A few commits prove little, so they
    never count as regular."""
    if not together:
        return None
    share = together / max(commits, 1)
    if share >= _HIGH and together >= 3:
        return "high"
    return "medium" if share >= _MEDIUM and together >= 2 else "low"


def is_weak(row: Neighbor) -> bool:
    """Whether a row has too little evidence to be shown by default.

    Such a row has a low score, and at most one common commit out of many.

    In requests, flask and ripgrep, this hides 11% to 27% of the rows. Of the hidden rows, 1% to 2% change in the next
    commit; of the others, 9% to 13%.
    """
    return row.together <= 1 and row.commits >= _MANY and row.score < _LOW


def hidden(count: int) -> str:
    pairs, them = ("pair", "it") if count == 1 else ("pairs", "them")
    return f"{count} weak {pairs} hidden (at most one commit in common): use --weak to see {them}"


def legend(rows: Sequence[Neighbor]) -> str:
    text = "bar: share of best score; medium: from 20%; high: from 50%"
    return f"{text}; partners: shared" if any("through" in row.reasons[:2] for row in rows) else text


def scale_of(rows: Iterable[Neighbor]) -> Callable[[float], float]:
    """A function that converts a score to its share of the best score, 0 to 1, because all scores are small in a large
    repository."""
    full = max(max((row.score for row in rows), default=0.0), _LEAST_SCALE)
    return lambda score: min(max(score / full, 0.0), 1.0)


def reasons_text(reasons: Sequence[str], *, short: bool = False) -> str:
    """The reason codes of a row in a few words each; with `short`, in one word each."""
    words = _WHY_SHORT if short else _WHY
    return ", ".join(words.get(reason, reason) for reason in reasons)


def guidance(neighborhood: Neighborhood) -> str:
    noun = "folder" if neighborhood.paths[0].endswith(b"/") else "file"
    these = f"these {noun}s" if len(neighborhood.paths) > 1 else f"this {noun}"
    if not any(row.together for row in neighborhood.rows):
        return f"candidates that have never changed with {these}; they are worth a look, but need not change"
    return f"files that changed with {these}; they are worth a look, but need not change"


def headline(neighborhood: Neighborhood) -> str:
    names = [os.fsdecode(path) for path in neighborhood.paths]
    several = len(names) > 1
    query = list_some(names, _NAMED)
    query += "" if neighborhood.revision == "HEAD" else f" at {neighborhood.revision}"
    if not neighborhood.looked_at:
        basis = f"no commit touches {'them' if several else 'it'}"
    else:
        count = "one commit" if neighborhood.looked_at == 1 else f"last {neighborhood.looked_at} commits"
        basis = f"based on {'their' if several else 'its'} {count}"
    rows = len(neighborhood.rows)
    plural = "" if rows == 1 else "s"
    if any(row.together for row in neighborhood.rows):
        return f"{rows} neighbor{plural} of {query} ({basis})"
    candidates = f", {rows} candidate{plural} by name, folder or time" if rows else ""
    return f"no file has changed with {query} ({basis}){candidates}"


AUTHOR_WIDTH = 30
SUBJECT_WIDTH = 100
PATH_WIDTH = 200
DID_WIDTH = 160
PEOPLE_WIDTH = 300
MOST, LATELY = 4, 3  # persons


def history_block(
    steps: Sequence[HistoryStep], *, partial: bool = False, limit: int = 20, people: Authors | None = None
) -> str:
    """Format a line about the authors, then one line per commit, newest first; "" for no commits.

    The line of a commit has its date, short id, author, subject, changes to the file, and lines added and removed.
    There are at most `limit` commits. Authors, subjects and symbols are untrusted: control characters are replaced and
    long values are cut, so a line cannot forge another one.
    """
    from repoagent.history.commit_details import describe_step, lines_of

    if not steps or limit < 1:
        return ""
    lines = [authors_line(people)] if people is not None else []
    for step in steps[:limit]:
        commit = step.commit
        author, subject = plain_line(commit.author, AUTHOR_WIDTH), plain_line(commit.subject, SUBJECT_WIDTH)
        day, short = plain_line(commit.date[:10], 10), plain_line(commit.short, 16)
        line = f"{day} {short} {author}: {subject or '(no subject)'}"
        if summary := plain_line(step.summary or describe_step(step), DID_WIDTH):
            line += f" — {summary}"
        counts = lines_of(commit)
        lines.append(line + (f", {counts}" if counts else ""))
    if len(steps) > limit or partial:
        lines.append("(older commits omitted)")
    return "".join(line + "\n" for line in lines if line)


def authors_line(people: Authors) -> str:
    """The file's authors in one line for a prompt: those with the most commits, with the year of their last commit if
    that is long ago, then the most recent authors; "" if there are no commits."""
    if not people.commits:
        return ""
    last = max(person.last for person in (*people.persons, *people.bots))
    year = (
        f"{int(last[:4]) - 1:04}{last[4:]}" if last[:4].isdecimal() else ""
    )  # authors with no commit since have left
    line = f"{'the last ' * people.partial}{people.commits} commit{'s' if people.commits > 1 else ''}"
    if people.persons:
        total = f"{len(people.persons)} people: " if len(people.persons) > MOST else ""
        names = []
        for person in people.persons[:MOST]:
            until = f" (until {plain_line(person.last[:4], 4)})" if person.last < year else ""
            names.append(f"{plain_line(person.name, AUTHOR_WIDTH)} {person.commits}{until}")
        line += f" by {total}{', '.join(names)}"
    others = sorted(set(people.persons[MOST:]), key=lambda p: (p.last, p.commits, p.name), reverse=True)
    if lately := [plain_line(person.name, AUTHOR_WIDTH) for person in others[:LATELY] if person.last >= year]:
        line += f"; lately {', '.join(lately)}"
    if people.bots:
        bots = (f"{plain_line(bot.name, AUTHOR_WIDTH)} {bot.commits}" for bot in people.bots[:LATELY])
        line += f"; by programs: {', '.join(bots)}"
    return plain_line(f"{line}; last {last}", PEOPLE_WIDTH)


def to_dict(past: HistoryReport) -> dict[str, object]:
    from repoagent.history.commit_details import describe_step

    people: dict[str, object] = {"commits": past.people.commits, "partial": past.people.partial}
    for kind in ("persons", "bots"):
        names = ("name", "commits", "first", "last")
        people[kind] = [{n: getattr(each, n) for n in names} for each in getattr(past.people, kind)]
    commits = []
    for step in past.steps:
        symbols: dict[str, object] | None = None
        if (touched := step.touched) is not None:
            symbols = {kind: list(getattr(touched, kind)) for kind in ("added", "removed", "changed")}
            symbols["renamed"] = [list(pair) for pair in touched.renamed]
        fields = ("commit", "short", "author", "date", "subject", "added", "removed", "path")
        data = {name: getattr(step.commit, name) for name in fields}
        data |= {
            "was": step.was or None,
            "status": step.commit.status,
            "files": step.files,
            "did": describe_step(step),
        }
        commits.append({**data, "symbols": symbols, "summary": step.summary or None})
    return {
        "version": 1,
        "path": past.path,
        "revision": past.revision,
        "directory": past.directory,
        "partial": past.partial,
        "notes": list(past.notes),
        "people": people,
        "commits": commits,
    }


def plain_line(text: str, width: int) -> str:
    """`text` on one line of at most `width` characters, without control characters."""
    line = " ".join(text[: width * 4].split())
    line = "".join(c if c.isprintable() else "�" for c in line)
    return line if len(line) <= width else line[: width - 1] + "…"


def candidates_block(neighborhood: Neighborhood, why_not: Callable[[str], str | None]) -> str:
    """The neighbors for a prompt, one per line, and how to read them; "" for no neighbors. Those for which `why_not`
    gives a reason to withhold them are left out."""
    rows = [row for row in neighborhood.rows if not why_not(os.fsdecode(row.path))]
    if not rows:
        return ""
    lines = [
        "Files that changed with the edited ones, most likely first; candidates to inspect, not automatic targets:"
    ]
    for row in rows:
        path = plain_line(os.fsdecode(row.path), PATH_WIDTH)
        if not row.together:
            lines.append(f"{path}: no common commits; {reasons_text(row.reasons)}")
            continue
        last = "" if row.last is None else time.strftime(", last %Y-%m-%d", time.gmtime(row.last))
        share = f"{row.together} of {row.commits} commits ({together_rate(row.together, row.commits)})"
        lines.append(f"{path}: in {share}{last}")
    return "\n".join(lines)


@dataclass(frozen=True)
class CommitHeader:
    """One commit. `date` is the committer date in ISO 8601; `author` is the name according to `.mailmap`."""

    commit: str
    short: str
    author: str
    date: str
    subject: str


def read_headers(top: Path, ids: Iterable[str]) -> dict[str, CommitHeader]:
    """The commits with these full ids, by id; pruned commits are left out.

    Invalid UTF-8 is decoded with replacement characters. Raises GitError if git fails.
    """
    commits = list(dict.fromkeys(ids))
    if not commits:
        return {}
    options = ("--no-walk=unsorted", "--ignore-missing", "--stdin", "--format=%H%x00%h%x00%aN%x00%cI%x00%s")
    data = git_offline(top, *LOG, *options, names=commits)
    tokens = [token.decode("utf-8", "replace") for token in data.split(b"\0")[:-1]]
    return {tokens[start]: CommitHeader(*tokens[start : start + 5]) for start in range(0, len(tokens), 5)}
