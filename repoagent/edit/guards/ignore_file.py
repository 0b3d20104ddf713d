"""Match the patterns of `.repoagentignore` as git matches a `.gitignore`, without backtracking.

Patterns and names come with the repository: a pattern such as `a*a*a*a*b` must not take minutes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

_CLASSES = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "blank": r" \t", "cntrl": r"\x00-\x1f\x7f", "digit": "0-9", "graph": "!-~",
    "lower": "a-z", "print": " -~", "punct": r"!-/:-@\[-`{-~", "space": r"\s", "upper": "A-Z", "xdigit": "0-9A-Fa-f",
}  # fmt: skip
_SET = re.compile(r"\[([!^]?)((?:\]|\\.|\[:[a-z]+:\]|[^\]\\])(?:\\.|\[:[a-z]+:\]|[^\]\\])*)\]", re.DOTALL)
_ITEM = re.compile(r"\[:([a-z]+):\]|\\?(.)(?:-\\?([^\]]))?", re.DOTALL)


class _Pattern(NamedTuple):
    """`parts` are those between slashes; None stands for `**`, any number of folders."""

    parts: tuple[re.Pattern[str] | None, ...]
    negated: bool
    folders_only: bool

    def matches(self, names: Sequence[str]) -> bool:
        """Whether the pattern is that of the whole path. After each `**` the first place that fits is as good as any
        later one, so the work grows with the product of both lengths, no more."""
        parts = self.parts
        if (
            len(parts) == 2 and parts[0] is None and parts[1] is not None
        ):  # most patterns: a name in any folder
            return parts[1].match(names[-1]) is not None
        at = here = 0
        again, begun = -1, 0  # the part after the last `**`, and where it was tried last
        while here < len(names):
            part = parts[at] if at < len(parts) else None
            if at < len(parts) and part is None:
                at += 1
                again, begun = at, here
            elif part is not None and part.match(names[here]):
                at, here = at + 1, here + 1
            elif again >= 0:
                begun += 1
                at, here = again, begun
            else:
                return False
        return all(part is None for part in parts[at:])


class IgnoreFile:
    """A set of ignore patterns."""

    def __init__(self, data: bytes) -> None:
        lines = data.removeprefix(b"\xef\xbb\xbf").decode(errors="replace").split("\n")
        self._patterns = [pattern for line in lines if (pattern := _parsed(line.removesuffix("\r")))][::-1]
        self._folders: dict[str, bool] = {"": False}

    def match_file(self, path: str) -> bool:
        """Whether `path` (a file, relative to the top) or one of its folders is ignored."""
        names = path.split("/")
        for depth in range(1, len(names)):
            folder = "/".join(names[:depth])
            if folder not in self._folders:
                self._folders[folder] = self._is_out(names[:depth], folder=True)
            if self._folders[folder]:
                return True
        return self._is_out(names, folder=False)

    def _is_out(self, names: Sequence[str], *, folder: bool) -> bool:
        for pattern in self._patterns:
            if (folder or not pattern.folders_only) and pattern.matches(names):
                return not pattern.negated
        return False


def _parsed(line: str) -> _Pattern | None:
    """The pattern of a line; None for none."""
    while line.endswith(" ") and not line.endswith("\\ "):
        line = line[:-1]
    if not line or line.startswith("#"):
        return None
    negated = line.startswith("!")
    text = line[negated:]
    folders_only = text.endswith("/")
    text = text.removesuffix("/")
    if not text:
        return None
    words = _words(text.removeprefix("/"))
    if "/" not in text:
        words.insert(0, "**")
    if words[-1] == "**":  # what is inside, not the folder itself
        words.append("*")
    parts: list[re.Pattern[str] | None] = []
    for word in words:
        if word != "**":
            parts.append(_compiled(word))
        elif not parts or parts[-1] is not None:
            parts.append(None)
    return _Pattern(tuple(parts), negated, folders_only)


def _words(text: str) -> list[str]:
    """What stands between the slashes. One in a set separates nothing, and matches nothing; one after a backslash is
    as any other."""
    words = [""]
    at = 0
    while at < len(text):
        known = _SET.match(text, at) if text[at] == "[" else None
        if text[at] == "[" and known is None:  # the pattern matches nothing
            return [text]
        end = known.end() if known else at + 1 + (text[at] == "\\")
        piece = text[at:end]
        if piece in ("/", "\\/"):
            words.append("")
        else:
            words[-1] += piece
        at = end
    return words


def _compiled(glob: str) -> re.Pattern[str]:
    """A pattern for one name. After each `*` but the last the first place that fits is taken for good: a lookahead, as
    Python 3.10 has no atomic groups."""
    chunks = [""]
    at = 0
    while at < len(glob):
        char = glob[at]
        known = _SET.match(glob, at) if char == "[" else None
        if char == "*":
            if chunks[-1] or len(chunks) == 1:
                chunks.append("")
        elif known:
            chunks[-1] += _set(known[1], known[2])
            at = known.end() - 1
        elif char == "[" or glob[at:] == "\\":  # git: such a pattern matches nothing
            return re.compile(r"(?!)")
        elif char == "\\":
            at += 1
            chunks[-1] += re.escape(glob[at])
        else:
            chunks[-1] += "." if char == "?" else re.escape(char)
        at += 1
    first, *middle = chunks
    last = f".*{middle.pop()}" if middle else ""
    steps = [f"(?=(?P<g{n}>.*?{chunk}))(?P=g{n})" for n, chunk in enumerate(middle)]
    return re.compile(first + "".join(steps) + last + r"\Z", re.DOTALL)


def _set(negated: str, items: str) -> str:
    text = ""
    for known in _ITEM.finditer(items):
        if known[1]:
            text += _CLASSES.get(known[1], "")
        elif not known[3]:
            text += re.escape(known[2])
        elif known[2] <= known[3]:
            text += f"{re.escape(known[2])}-{re.escape(known[3])}"
    if not text:
        return "." if negated else r"(?!)"
    return f"[{'^' if negated else ''}{text}]"
