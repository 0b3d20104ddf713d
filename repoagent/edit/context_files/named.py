"""Which further files a context file names: its front matter, a list in TOML, the imports of a CLAUDE.md."""

from __future__ import annotations

import re
import sys
from pathlib import PurePosixPath

_FRONT = re.compile(r"\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*\r?$", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"^context:[ \t]*\[([^\]]*)\]", re.MULTILINE)
_LISTED = re.compile(r"^context:[ \t]*\r?\n((?:[ \t]*-[ \t]+.*(?:\n|\Z))+)", re.MULTILINE)
_FENCE = re.compile(r"[ \t]*(```|~~~)")
_IMPORT = re.compile(r"[ \t]*(?:[-*][ \t]+)?@([^\s@`<>]+)[ \t]*\r?")
IMPORTING = "CLAUDE.md"


def named_in(path: str, text: str) -> tuple[str, ...]:
    """What the file `path` names, in its order, as it is written there: relative to the folder of that file.

    A .toml has `context = [...]`, any other file a list `context` in the front matter between two `---` at its top. A
    line of a CLAUDE.md that is nothing but `@FILE` names it too, outside of code fences.
    """
    if path.endswith(".toml"):
        return _of_toml(text)
    found = _of_front_matter(text)
    if PurePosixPath(path).name == IMPORTING:
        found += _imports(text)
    return tuple(dict.fromkeys(found))


def without_front_matter(text: str) -> str:
    """The text without a front matter that is a list of context files; another one stays."""
    front = _FRONT.match(text)
    if front is None or not re.search(r"^context:", front[1], re.MULTILINE):
        return text
    return text[front.end() :].lstrip("\r\n")


def _of_toml(text: str) -> tuple[str, ...]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    try:
        value = tomllib.loads(text.replace("\r\n", "\n")).get("context", [])
    except tomllib.TOMLDecodeError:
        return ()
    return tuple(name for name in value if isinstance(name, str)) if isinstance(value, list) else ()


def _of_front_matter(text: str) -> tuple[str, ...]:
    front = _FRONT.match(text)
    if front is None:
        return ()
    if inline := _INLINE.search(front[1]):
        names = inline[1].split(",")
    elif listed := _LISTED.search(front[1]):
        names = [line.strip()[1:] for line in listed[1].splitlines()]
    else:
        return ()
    return tuple(name for each in names if (name := each.strip().strip("\"'").strip()))


def _imports(text: str) -> tuple[str, ...]:
    found, fence = [], ""
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if mark and fence in ("", mark[1]):
            fence = "" if fence else mark[1]
        elif not fence and (named := _IMPORT.fullmatch(line)):
            found.append(named[1])
    return tuple(found)
