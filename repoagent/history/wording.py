"""What is said of a neighborhood, the same in a table and in a picture."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from repoagent.history.cochange.score import Neighbor
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


def rate(together: int, commits: int) -> Rate | None:
    """How regularly two files change together, in a word; None when they never did. A few commits prove little."""
    if not together:
        return None
    share = together / max(commits, 1)
    if share >= _HIGH and together >= 3:
        return "high"
    return "medium" if share >= _MEDIUM and together >= 2 else "low"


def is_weak(row: Neighbor) -> bool:
    """Whether there is too little evidence for a pair: at most one common commit, of many, and a low score.

    `python -m bench.cochange.weak` says what that hides: of requests, flask and ripgrep 11 to 27 % of the rows, of
    which 1 to 2 % change along (of the others 9 to 13 %), and 0 to 3 % of the hits among the first ten.
    """
    return row.together <= 1 and row.commits >= _MANY and row.score < _LOW


def hidden(count: int) -> str:
    """How many weak pairs are not shown."""
    pairs, them = ("pair", "it") if count == 1 else ("pairs", "them")
    return f"{count} weak {pairs} hidden (one common commit at most): use --weak to see {them}"


def legend(rows: Sequence[Neighbor]) -> str:
    """What the columns say, as far as their names do not."""
    told = "bar: share of best score; medium: from 20%; high: from 50%"
    return f"{told}; partners: shared" if any("through" in row.reasons[:2] for row in rows) else told


def scale_of(rows: Iterable[Neighbor]) -> Callable[[float], float]:
    """What makes a score a share of the best one, 0 to 1, to be drawn: scores of a large repository are all small."""
    full = max(max((row.score for row in rows), default=0.0), _LEAST_SCALE)
    return lambda score: min(max(score / full, 0.0), 1.0)


def why(reasons: Sequence[str], *, short: bool = False) -> str:
    """The reason codes of a row in a few words, or in a word each."""
    words = _WHY_SHORT if short else _WHY
    return ", ".join(words.get(reason, reason) for reason in reasons)


def guidance(found: Neighborhood) -> str:
    """What to make of the rows."""
    these = "these files" if len(found.paths) > 1 else "this file"
    if found.paths[0].endswith(b"/"):
        these = "these folders" if len(found.paths) > 1 else "this folder"
    if not any(row.together for row in found.rows):
        return "candidates that have not changed with it; a place to look, not something that must change"
    return f"changed with {these}; a place to look, not something that must change"


def headline(found: Neighborhood) -> str:
    """What was looked at, in one line. Names are as they are: make them safe to show."""
    names = [os.fsdecode(path) for path in found.paths]
    what = ", ".join(names[:_NAMED])
    if len(names) > _NAMED:
        what += f" and {len(names) - _NAMED} more"
    at = "" if found.revision == "HEAD" else f" at {found.revision}"
    its = "their" if len(names) > 1 else "its"
    if not found.looked_at:
        looked = f"no commit of {'theirs' if len(names) > 1 else 'it'} found"
    elif found.looked_at == 1:
        looked = f"{its} one commit looked at"
    else:
        looked = f"{its} last {found.looked_at} commits looked at"
    count = f"{len(found.rows)} {{}}{'' if len(found.rows) == 1 else 's'}"
    if any(row.together for row in found.rows):
        return f"{count.format('neighbor')} of {what}{at} ({looked})"
    candidates = f", {count.format('candidate')} by name, folder or time" if found.rows else ""
    return f"nothing has changed with {what}{at} ({looked}){candidates}"
