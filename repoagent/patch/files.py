"""File names in answers: how they are written, which known file is meant, and which are never written."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from repoagent.dataclass import dataclass
from repoagent.git.files import FileChange
from repoagent.patch.locate.exact import Placement
from repoagent.patch.model import FilePatch, SourceText
from repoagent.patch.verify import ParsesWorse

if TYPE_CHECKING:
    from repoagent.patch.splice import Splice

_ESCAPES = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, '"': 34, "\\": 92}
_ESCAPE = re.compile(r"\\([0-7]{1,3}|.)")
_PREFIX = re.compile(r"^(?:[abciow12]|old|new|orig|original|modified|updated|before|after|left|right)/(?=.)")
_SHORT_PREFIX = re.compile(r"^[abciow12]/(?=.)")
_DATE = re.compile(
    r"(?<=\S)\s+(?:\d{4}-\d\d-\d\d[ T]\d\d:|(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) [A-Z][a-z][a-z] [ \d]?\d )"
)
_REMARK = re.compile(
    r"(?<=\S)\s+\((?:original|modified|updated|new|old|before|after|current|deleted|working copy|nonexistent"
    r"|revision \d+|new file|unchanged|fixed|patched)[^()]{0,40}\)$",
    re.IGNORECASE,
)
NO_FILE = "/dev/null"


def unquote(name: str) -> str:
    """A name in a header, without git's C-quoting and what follows a tab; without a tab, also without trailing white
    space."""
    name = name.rstrip("\r")
    if name.startswith('"'):
        close = re.match(r'"((?:[^"\\]|\\.)*)"', name)
        return _unescape(close.group(1)) if close else name
    name, tab, _ = name.partition("\t")
    return name if tab else name.rstrip()  # the tab ends a name, which may end in a space itself


def plain_name(name: str) -> str:
    """A name after `---` or `+++`, as `unquote`, also without a date or remark after it, `file://`, and what
    Markdown puts around it."""
    if name.startswith('"'):
        return unquote(name)
    ended = "\t" in name
    name = unquote(name).lstrip()
    if ended and name.endswith(" ") and name.strip():
        return name
    name = name.rstrip()
    name = _DATE.split(name, maxsplit=1)[0].strip() if len(name) < 4000 else name
    name = _REMARK.sub("", name) if len(name) < 4000 else name
    for mark in ("**", "__", "`", "'", '"'):
        if len(name) > 2 * len(mark) and name.startswith(mark) and name.endswith(mark):
            name = name[len(mark) : -len(mark)]
    return re.sub(r"^file://(?:localhost)?(?=/)", "", name)


def is_no_file(name: str) -> bool:
    """Does a name after `---` or `+++` stand for no file?"""
    return plain_name(name).rstrip() in {NO_FILE, "dev/null", "a/dev/null", "b/dev/null", "NUL", "nul"}


def _unescape(quoted: str) -> str:
    def byte(match: re.Match[str]) -> str:
        code = match.group(1)
        value = int(code, 8) & 0xFF if code.isdigit() else _ESCAPES.get(code, ord(code) & 0xFF)
        return chr(value)

    raw = b"".join(
        byte(match).encode("latin-1")
        if (match := _ESCAPE.fullmatch(part))
        else part.encode("utf-8", "surrogateescape")
        for part in re.split(r"(\\(?:[0-7]{1,3}|.))", quoted)
    )
    return raw.decode("utf-8", "surrogateescape")


def bad_path(path: str, *, known: bool = False) -> str | None:
    """Why `path` may never be written or deleted, as a sentence; None for a harmless one.

    A `known` path is that of a file which is there: its name may hold anything that a name can.

    A check of the string alone: symbolic links are the business of who opens the file. Names that some file
    system takes for `.git` (case, trailing dots and spaces, `git~1`, streams, invisible characters) are
    `.git`.
    """
    if not path:
        return "the path is empty"
    if not known and (odd := _odd(path)):
        return odd
    if path.startswith("/"):
        return "the path is absolute; use a path relative to the top of the repository"
    for part in path.split("/"):
        if part in {"", ".", ".."}:
            return f"the path contains {part!r}; use a plain path from the top of the repository"
        if _reserved(part):
            return f"{part!r} belongs to git or repoagent and is never edited"
    return None


_LONGEST_PART, _LONGEST = 255, 4095  # bytes that file systems take


def _odd(path: str) -> str | None:
    """What a new file should not be called: some system would take it for another, or a reader would."""
    if any(char < " " or "\x7f" <= char <= "\x9f" or char in "\u2028\u2029" for char in path):
        return "the path contains a control character"
    if _INVISIBLE.search(path):
        return "the path contains an invisible character or one that changes the direction of text"
    if any("\ud800" <= char <= "\udfff" for char in path):
        return "the path is not valid UTF-8"
    if "\\" in path:
        return "the path contains a backslash; separate folders with `/`"
    if path.startswith("~/"):
        return "the path is in a home folder; use a path relative to the top of the repository"
    if re.match(r"[A-Za-z]:", path):
        return "the path is absolute; use a path relative to the top of the repository"
    parts = path.split("/")
    if len(path.encode()) > _LONGEST or any(len(part.encode()) > _LONGEST_PART for part in parts):
        return "the path is too long"
    for part in parts:
        if part not in {".", ".."} and part != part.rstrip(". "):
            return f"{part!r} ends in a dot or a space"
    return None


_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]"
)


def _plain(part: str) -> str:
    """A path component as the most forgiving file system would read it."""
    folded = unicodedata.normalize("NFKC", _INVISIBLE.sub("", part)).casefold()
    return folded.translate(_LOOKALIKE).split(":")[0].rstrip(". ").strip()


_LOOKALIKE = str.maketrans({"\u0131": "i", "\u0307": None})  # what some tables of case take for an i
_SHORT_NAME = re.compile(r"(?:git|repoag|gi[0-9a-f]{4}|re[0-9a-f]{4})~\d+")


def _reserved(part: str) -> bool:
    """Does a path component belong to git or to repoagent, under any of its names?"""
    plain = _plain(part)
    return plain in {".git", ".repoagent"} or _SHORT_NAME.fullmatch(plain) is not None


def spellings(old: str | None, new: str | None) -> tuple[list[str], list[str]]:
    """The paths that the names of a header can stand for, likeliest first, for each side."""
    names = [name for name in (old, new) if name not in {None, NO_FILE}]
    prefixed = bool(names) and all(name is not None and _SHORT_PREFIX.match(name) for name in names)
    folders = (
        len(names) == 2 and old != new and all(name is not None and _PREFIX.match(name) for name in names)
    )
    return _spelled(old, prefixed or folders), _spelled(new, prefixed or folders)


def _spelled(name: str | None, prefixed: bool) -> list[str]:
    if name is None or name == NO_FILE:
        return []
    while name.startswith("./"):
        name = name[2:].lstrip("/")
    without = (_PREFIX if prefixed else _SHORT_PREFIX).sub("", name, count=1)
    both = [without, name] if prefixed else [name, without]
    return list(dict.fromkeys(both))


def known_path(names: Collection[str], known: Collection[str]) -> str | None:
    """The one known path that `names` (spellings of one name) mean, or None.

    As given first; then as `_otherwise` has it; then the longest common tail (see `same_tail`), if it is single; then
    a path that ends in spaces, which the name has lost.
    """
    for name in names:
        if name in known:
            return name
    names = _otherwise(names)
    for name in names:
        if name in known:
            return name
    if tail := next((found[0] for name in names if len(found := same_tail(name, known)) == 1), None):
        return tail
    spaced = [path for path in known if path.endswith(" ") and path.rstrip(" ") in names]
    return spaced[0] if len(spaced) == 1 else None


def _otherwise(names: Collection[str]) -> list[str]:
    """Names that no file has, with `/` for the `\\` that Windows writes, and without what else (a date, say) came to
    stand inside the quotes of a header."""
    found = []
    for name in names:
        slashed = plain_name(name).replace("\\", "/")
        found += [_SHORT_PREFIX.sub("", slashed, count=1), slashed] if "\\" in name else [slashed]
    return found


def same_tail(name: str, known: Collection[str]) -> list[str]:
    """The known paths that share the longest tail with `name`, whole on one side. A name with `..` has no tail."""
    if ".." in name.split("/") or not name.strip("/"):
        return []
    tails = [path for path in known if f"/{path}".endswith(f"/{name}") or f"/{name}".endswith(f"/{path}")]
    longest = max((_common_tail(path, name) for path in tails), default=0)
    return [path for path in tails if _common_tail(path, name) == longest]


def _common_tail(one: str, other: str) -> int:
    count = 0
    for left, right in zip(reversed(one.split("/")), reversed(other.split("/")), strict=False):
        if left != right:
            break
        count += 1
    return count


_MANY, _FEW = 12, 5  # names in an error text


@dataclass(frozen=True)
class Files:
    """The files of one call of `apply_answer`, and its rules."""

    sources: Mapping[str, SourceText]
    scope: frozenset[str]
    may_create: Callable[[str], bool]
    strict: bool = False
    parses_worse: ParsesWorse | None = None
    exists: Callable[[str], bool] = lambda path: False

    def closed(self, near: str) -> str:
        """Why a file may not be changed that is not in scope."""
        return f"this edit may not change it (only {self.named(near)})."

    def which(self, near: str) -> str:
        """A sentence that names the files in scope, after another one; "" where there are none."""
        return f" Files that may be changed: {self.named(near)}." if self.scope else ""

    def named(self, near: str = "") -> str:
        """The files in scope, for an error text; of many, those whose names are most like `near`."""
        if len(self.scope) <= _MANY:
            return ", ".join(sorted(self.scope)) or "none"
        from rapidfuzz import process
        from rapidfuzz.distance import Indel

        like = process.extract(near, sorted(self.scope), scorer=Indel.normalized_similarity, limit=_FEW)
        return ", ".join(name for name, _, _ in like) + ", …"


@dataclass(frozen=True)
class Target:
    """One `FilePatch` with its files: `source` is the known path it starts from (None: a new file), `path`
    the one it ends at (None: the file is deleted)."""

    patch: FilePatch
    source: str | None
    path: str | None

    @property
    def name(self) -> str:
        return self.path or self.source or ""


@dataclass(frozen=True)
class Outcome:
    """What the patches of one file come to. `parts` are the splices that make the change, None where it is not made of
    hunks for one text; `ends` is what these say of the newline at its end."""

    change: FileChange
    placements: tuple[Placement, ...]
    parts: tuple[Splice, ...] | None = field(default=None, compare=False)
    ends: bool | None = field(default=None, compare=False)

    @property
    def changes(self) -> bool:
        change = self.change
        return (change.before, change.old_mode, change.old_path) != (change.after, change.mode, change.path)
