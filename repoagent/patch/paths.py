"""File names in answers: how they are written, which known file is meant, and which are never written."""

from __future__ import annotations

import re
from collections.abc import Collection

_ESCAPES = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, '"': 34, "\\": 92}
_ESCAPE = re.compile(r"\\([0-7]{1,3}|.)")
_PREFIX = re.compile(r"[abciow12]/(?=.)")
NO_FILE = "/dev/null"


def unquote(name: str) -> str:
    """A name in a header, without git's C-quoting, time stamp, trailing white space and back-ticks."""
    name = name.rstrip("\r")
    if name.startswith('"'):
        close = re.match(r'"((?:[^"\\]|\\.)*)"', name)
        return _unescape(close.group(1)) if close else name
    return name.split("\t")[0].rstrip().strip("`")


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
        return "the path is absolute; paths are relative to the top of the repository"
    for part in path.split("/"):
        if part in {"", ".", ".."}:
            return f"the path has the component {part!r}; write it from the top of the repository"
        if _plain(part) in {".git", "git~1", ".repoagent", "repoag~1"}:
            return f"{part!r} belongs to git or repoagent and is never edited"
    return None


def _odd(path: str) -> str | None:
    """What a new file should not be called: some system would take it for another."""
    if any(char < " " or char == "\x7f" for char in path):
        return "the path holds a control character"
    if "\\" in path:
        return "the path holds a backslash; separate folders with `/`"
    if re.match(r"[A-Za-z]:", path):
        return "the path is absolute; paths are relative to the top of the repository"
    for part in path.split("/"):
        if part not in {".", ".."} and part != part.rstrip(". "):
            return f"the component {part!r} ends in a dot or a space"
    return None


_INVISIBLE = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]")


def _plain(part: str) -> str:
    """A path component as the most forgiving file system would read it."""
    return _INVISIBLE.sub("", part).split(":")[0].rstrip(". ").lower()


def spellings(old: str | None, new: str | None) -> tuple[list[str], list[str]]:
    """The paths that the names of a header can stand for, likeliest first, for each side."""
    names = [name for name in (old, new) if name not in {None, NO_FILE}]
    prefixed = bool(names) and all(name is not None and _PREFIX.match(name) for name in names)
    return _spelled(old, prefixed), _spelled(new, prefixed)


def _spelled(name: str | None, prefixed: bool) -> list[str]:
    if name is None or name == NO_FILE:
        return []
    while name.startswith("./"):
        name = name[2:]
    without = _PREFIX.sub("", name, count=1)
    both = [without, name] if prefixed else [name, without]
    return list(dict.fromkeys(both))


def known_path(names: Collection[str], known: Collection[str]) -> str | None:
    """The one known path that `names` (spellings of one name) mean, or None.

    As given first; then the longest common tail, if it is whole on one side and single. A name with `..` has
    no tail.
    """
    for name in names:
        if name in known:
            return name
    for name in names:
        if ".." in name.split("/"):
            continue
        tails = [path for path in known if f"/{path}".endswith(f"/{name}") or f"/{name}".endswith(f"/{path}")]
        longest = max((_common_tail(path, name) for path in tails), default=0)
        best = [path for path in tails if _common_tail(path, name) == longest]
        if len(best) == 1:
            return best[0]
    return None


def _common_tail(one: str, other: str) -> int:
    count = 0
    for left, right in zip(reversed(one.split("/")), reversed(other.split("/")), strict=False):
        if left != right:
            break
        count += 1
    return count


_FILE = re.compile(r"[\w@+~\[\](){}$.#-]+(?:/[\w@+~\[\](){}$.#-]+)*")
_PLAIN_NAMES = {
    "Makefile",
    "Dockerfile",
    "LICENSE",
    "Jenkinsfile",
    "Rakefile",
    "Gemfile",
    "Justfile",
    "CODEOWNERS",
}


def _is_name(word: str) -> bool:
    if _FILE.fullmatch(word) is None or "://" in word:
        return False
    last = word.rsplit("/", 1)[-1]
    return last in _PLAIN_NAMES or re.search(r"\w\.[A-Za-z]\w{0,11}$|^\.[A-Za-z][\w.-]+$", last) is not None


def name_on_line(line: str) -> str | None:
    """The file that a line names and does nothing else: `src/a.py`, `### File: src/a.py`, **`src/a.py`**:"""
    text = re.sub(r"^[#>\s]*(?:[-*] +|\d+[.)] +)?", "", line.strip())
    text = re.sub(
        r"\s*\((?:new|updated|modified|complete|full|whole|entire)[^)]*\)\s*:?$",
        "",
        text,
        flags=re.IGNORECASE,
    )
    text = text.strip("*_ :")
    text = re.sub(r"^(?:file ?name|file ?path|file|path)\**\s*:\**\s*", "", text, flags=re.IGNORECASE)
    text = text.strip("*: ").strip("`\"'").strip("*: ")
    return text if _is_name(text.lstrip("/")) else None


def name_in_info(info: str) -> str | None:
    """The file that a fence's info string names: ```python src/a.py, ```src/a.py, ```python
    title="src/a.py"."""
    for number, word in enumerate(info.split()):
        value = re.sub(r"^\{?(?:title|file|filename|path|name)=", "", word).rstrip("}").strip("\"'`")
        language, colon, tail = value.partition(":")
        if colon and language.isalnum() and len(language) > 1 and _is_name(tail.lstrip("/")):
            return tail
        if _is_name(value.lstrip("/")) and (number or "/" in value or "." in value or value in _PLAIN_NAMES):
            return value
    return None
