"""What each commit did to one file: definitions touched, lines, renames, modes; within limits on work and time.

Definitions are compared by name and by their own lines, between the outlines of both versions.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.git.objects import local_blobs
from repoagent.git.process import GitError
from repoagent.history.log import COMMIT_MARK, LISTED, FileCommit, git_offline, split_log

_LOG = (*LISTED, "--diff-merges=first-parent", COMMIT_MARK, "--raw", "-M100%")
_FUNCTIONS = frozenset({"function", "method"})
_SHORTEST = 7  # bytes of a definition that is recognized after a rename, such as `class X:`


@dataclass(frozen=True)
class Touched:
    """Qualified names of the definitions that a commit touched, in text order; `renamed` has pairs (old, new).

    Members of an added or removed definition are not listed. `spaces` is true if only white space differs, `outside` if
    the file has definitions and none was touched.
    """

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()
    spaces: bool = False
    outside: bool = False

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed or self.renamed)


@dataclass(frozen=True)
class DefinitionText:
    """A definition with its own text, without nested definitions or white space."""

    name: str
    qualified_name: str
    holder: str
    text: bytes


def parts(path: str, data: bytes) -> tuple[DefinitionText, ...] | None:
    """The definitions of a file; those local to a function count as its text. None for a file that has no outline."""
    from repoagent.syntax.languages import language_of
    from repoagent.syntax.outline import outline

    if language_of(path, data) is None:
        return None
    lines = data.split(b"\n")
    owner: dict[int, int] = {}
    kept: list[tuple[str, str, str]] = []
    holders: list[tuple[int, str]] = []  # (depth, qualified name)
    local_below: int | None = None
    for symbol in outline(path, data):
        if local_below is not None and symbol.depth > local_below:
            continue
        local_below = symbol.depth if symbol.kind in _FUNCTIONS else None
        while holders and holders[-1][0] >= symbol.depth:
            holders.pop()
        holder = holders[-1][1] if holders else ""
        holders.append((symbol.depth, symbol.qualified_name))
        for line in range(symbol.first_line, symbol.last_line + 1):
            owner[line] = len(kept)
        kept.append((symbol.name, symbol.qualified_name, holder))
    texts = [bytearray() for _ in kept]
    for line, number in owner.items():
        if line <= len(lines):
            texts[number] += b"".join(lines[line - 1].split())
    return tuple(DefinitionText(*names, bytes(text)) for names, text in zip(kept, texts, strict=True))


def compare(before: tuple[DefinitionText, ...], after: tuple[DefinitionText, ...]) -> Touched:
    """The definitions that differ between two versions of a file. A definition that differs only in its name or
    container counts as renamed."""
    old, new = _by_name(before), _by_name(after)
    gone = [part for key, part in old.items() if key not in new]
    come = [part for key, part in new.items() if key not in old]
    renamed: list[tuple[str, str]] = []
    nameless = Counter(map(_nameless, come))
    for part in tuple(gone):
        form = _nameless(part)
        match = next((other for other in come if _nameless(other) == form), None)
        if match is None or nameless[form] > 1 or len(form) < _SHORTEST:
            continue
        gone.remove(part)
        come.remove(match)
        renamed.append((part.qualified_name, match.qualified_name))
    moved = dict(renamed)
    for pair in tuple(renamed):  # a member was renamed only because its container was
        holder, new_holder = (name.rpartition(".")[0] for name in pair)
        if moved.get(holder) == new_holder:
            renamed.remove(pair)
    changed = [part.qualified_name for key, part in new.items() if key in old and old[key].text != part.text]
    touched = Touched(_outermost(come), _outermost(gone), tuple(dict.fromkeys(changed)), tuple(renamed))
    return touched or Touched(outside=bool(after))


def _by_name(parts: tuple[DefinitionText, ...]) -> dict[tuple[str, int], DefinitionText]:
    seen: Counter[str] = Counter()
    table = {}
    for part in parts:
        table[part.qualified_name, seen[part.qualified_name]] = part
        seen[part.qualified_name] += 1
    return table


def _nameless(part: DefinitionText) -> bytes:
    return part.text.replace(part.name.encode("utf-8", "surrogatepass"), b"\0")


def _outermost(parts: list[DefinitionText]) -> tuple[str, ...]:
    names = {part.qualified_name for part in parts}
    return tuple(dict.fromkeys(part.qualified_name for part in parts if part.holder not in names))


COMMITS = 30  # that are searched for symbols
LARGEST = 256 * 1024  # bytes of one version of a file with symbols
MOST = 8 << 20  # bytes of all versions
SECONDS = 1.0  # CPU time of this thread for all outlines, so that a busy machine gets the same result
NAMES = 4  # names of each kind in one line
BULK = 100  # files of a commit; a larger one reformats, vendors or renames, and says little about one file
_LINK, _PROGRAM, _MODULE = "120000", "100755", "160000"


@dataclass(frozen=True)
class HistoryStep:
    """One commit and its changes to the file.

    touched: the definitions that changed; None if unknown.
    files: the number of files that the commit changed; None if unknown.
    was: the path before a rename.
    summary: a summary by a model.
    """

    commit: FileCommit
    touched: Touched | None = None
    files: int | None = None
    was: str = ""
    summary: str = ""


def history_steps(
    top: Path, commits: Sequence[FileCommit], *, limit: int = COMMITS, seconds: float = SECONDS
) -> list[HistoryStep]:
    """What each of `commits` (newest first, of one file) changed. For the first `limit` of them the touched definitions
    are looked up too, within `seconds` of CPU time; nothing is fetched. If git fails, details are left out."""
    sizes: dict[str, int] = {}
    with suppress(GitError):  # a clone without trees
        data = git_offline(top, *_LOG, names=[commit.commit for commit in commits]) if commits else b""
        sizes = {header[0].decode(): len(changes) for header, changes in split_log(data)}
    blobs: dict[str, bytes] | None = None
    with suppress(GitError):
        names = [name for c in commits[:limit] if _has_text(c) for name in (c.after, c.before)]
        blobs = local_blobs(top, names, largest=LARGEST, most=MOST)
    end = time.thread_time() + seconds

    @cache
    def outline(blob: str, path: str) -> tuple[DefinitionText, ...] | None:
        return None if blobs is None or time.thread_time() > end else parts(path, blobs[blob])

    result = []
    for number, commit in enumerate(commits):
        older = commits[number + 1].path if number + 1 < len(commits) else ""
        was = commit.was or (older if commit.status == "R" and older != commit.path else "")
        touched = None
        if blobs is not None and number < limit and _has_text(commit):
            # of a directory, the only file that the commit touched
            path = commit.touched[0] if len(commit.touched) == 1 else commit.path
            before = b"" if commit.status == "A" else blobs.get(commit.before)
            after = blobs.get(commit.after)
            if before is not None and after is not None:
                if commit.status != "A" and before != after and before.split() == after.split():
                    touched = Touched(spaces=True)
                else:
                    new = outline(commit.after, path)
                    old = () if commit.status == "A" else outline(commit.before, path)
                    touched = None if new is None or old is None else compare(old, new)
        result.append(HistoryStep(commit, touched, sizes.get(commit.commit), was))
    return result


def without_withheld(
    steps: Iterable[HistoryStep], why_not: Callable[[str], str | None]
) -> Iterator[HistoryStep]:
    """The steps without the names of files for which `why_not` gives a reason to withhold them. A step is left out
    if it changed only such files, or if the file itself had such a name."""
    for step in steps:
        touched = tuple(path for path in step.commit.touched if not why_not(path))
        if touched or not step.commit.touched:
            was = "" if step.was and why_not(step.was) else step.was
            yield replace(step, commit=replace(step.commit, touched=touched), was=was)


def describe_step(step: HistoryStep) -> str:
    """Describe what the commit changed in the file, without line counts; "" if there is nothing to say.

    The result is not sanitized for a terminal.
    """
    commit, phrases = step.commit, []
    if commit.status == "R":
        phrases.append(f"moved from {step.was}" if step.was else "moved here")
    elif commit.status == "A":
        phrases.append("added")
    elif commit.status == "D":
        phrases.append("deleted")
    old, new = commit.old_mode, commit.new_mode
    if commit.status in "MTR" and old != new and old.strip("0") and new.strip("0"):
        for mode, became, no_longer in (
            (_MODULE, "made a submodule", "no longer a submodule"),
            (_LINK, "made a symbolic link", "no longer a symbolic link"),
            (_PROGRAM, "made executable", "no longer executable"),
        ):
            if mode in (old, new):
                phrases.append(became if new == mode else no_longer)
                break
    if len(commit.touched) > 1 or commit.touched[:1] not in ((), (commit.path,)):
        phrases.append(_listed("in", [path.removeprefix(f"{commit.path}/") for path in commit.touched]))
    touched = step.touched
    if touched is not None and commit.status != "D":
        if touched.spaces:
            phrases.append("white space only")
        if touched.outside and commit.status == "M":
            phrases.append("outside any definition")
        phrases.append(_listed("adds" if commit.status != "A" else "with", touched.added))
        phrases.append(_listed("changes", touched.changed))
        phrases.append(_listed("removes", touched.removed))
        renamed = []
        for old, new in touched.renamed:
            holder, dot, name = new.rpartition(".")
            is_inside = dot and old.rpartition(".")[0] == holder
            renamed.append(f"{old} to {name if is_inside else new}")
        phrases.append(_listed("renames", renamed))
    if step.files is not None and step.files > BULK:
        phrases.append(f"one of {step.files:,} files")
    return "; ".join(filter(None, phrases))


def lines_of(commit: FileCommit) -> str:
    """The line counts as "+3 −1", or "" if lines were not counted."""
    if commit.added is None or commit.removed is None:
        return ""
    return f"+{commit.added} −{commit.removed}"


def _listed(verb: str, names: Sequence[str]) -> str:
    if not names:
        return ""
    most = NAMES + (len(names) == NAMES + 1)  # "and 1 more" would not be shorter
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{verb} {', '.join(names[:most])}{more}"


def _has_text(commit: FileCommit) -> bool:
    return (
        commit.status in "AMR"
        and commit.new_mode.startswith("100")
        and bool(commit.after)
        and commit.after != commit.before
    )
