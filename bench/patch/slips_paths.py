"""Files whose paths are not plain."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from bench.patch.draft import Draft
from bench.patch.slip import FILE, slip

Naming = Callable[[Draft, str], tuple[str, str]]


def _moved(name: str, alter: Callable[[str], str], *, quoted: bool = False) -> None:
    @slip(name, FILE, "path")
    def do(draft: Draft) -> bool:
        for change in draft.changes:
            change.both(path=alter(change.path))
        if len({change.path for change in draft.changes}) < len(draft.changes):
            return False
        if quoted:
            draft.wraps.append(lambda text: "\n".join(_c_style(line) for line in text.split("\n")))
        return True


MARK = "\u00fcber-"
# What may come after a name. Tools put it outside of the quotes.
_AFTER = re.compile(r"(?:\t.*| \d{4}-\d\d-\d\d .*| \((?:original|modified)\))?\s*$")


def _c_style(line: str) -> str:
    """A header line as git and GNU diff write it when the name isn't ASCII. A name between back-ticks or asterisks
    stays: who writes these writes what is read, not what git escapes. Nor is a changed line a header, `-- ` or `++ `
    first in it or not."""
    if MARK not in line:
        return line
    if line.startswith(("--- ", "+++ ", "*** a/")) and line[4:5] not in {"`", "*"}:
        after = _AFTER.search(line)
        assert after
        return f"{line[:4]}{_quoted(line[4 : after.start()])}{after[0]}"
    if line.startswith("diff --git a/"):
        names = line.removeprefix("diff --git ").rstrip()
        half = len(names) // 2
        return f"diff --git {_quoted(names[:half])} {_quoted(names[half + 1 :])}"
    return line


def _quoted(name: str) -> str:
    text = name.strip('"').replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}" for byte in text.encode()) + '"'


def _base(path: str, alter: Callable[[str], str]) -> str:
    folder, slash, base = path.rpartition("/")
    return f"{folder}{slash}{alter(base)}"


_moved("path-with-spaces", lambda path: _base(path, lambda base: f"my {base}"))
_moved("path-not-ascii", lambda path: _base(path, lambda base: f"\u00fcber-\u6587{base}"))
_moved("path-c-style", lambda path: _base(path, lambda base: MARK + base), quoted=True)
_moved("path-brackets", lambda path: _base(path, lambda base: f"[id]({base})"))
_moved("path-like-prefix", lambda path: f"a/b/{path}")
_moved("path-dotfile", lambda path: _base(path, lambda base: f".{base}"))
_moved("path-no-folder", lambda path: path.rpartition("/")[2])


@slip("same-base-names", FILE, "path extra", files=1)
def same_base(draft: Draft) -> bool:
    """Another file of the same base name is known; the path given is whole."""
    for change in list(draft.changes):
        base = change.path.rpartition("/")[2]
        if change.before is None:
            return False
        other = replace(change.before, path=f"other/place/{base}")
        draft.extra[other.path] = other.content
    return True
