"""The last checks on a result: what must not happen to a file, whatever the answer says."""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Callable, Sequence

from repoagent.patch.errors import PatchError
from repoagent.patch.locate.exact import is_blank
from repoagent.patch.model import is_elision, is_spoken_elision

_CONFLICT = re.compile(r"(?:<{7}|>{7})(?: |$)|={7}$")
_MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
ParsesWorse = Callable[[str, bytes, bytes], "str | None"]


def check_result(
    path: str, before: bytes, after: bytes, parses_worse: ParsesWorse | None, *, may_empty: bool = False
) -> None:
    """Raises PatchError if the edited bytes are not acceptable as the new content. `may_empty`: the patch deletes
    every line exactly."""
    if not may_empty and not _is_empty(before) and _is_empty(after):
        raise PatchError(
            "empties-file",
            "the change leaves the file empty. To delete the file, send `deleted file mode 100644` and "
            "`+++ /dev/null`.",
        )
    worse = parses_worse(path, before, after) if parses_worse is not None else None
    if worse:
        raise PatchError(
            "parses-worse",
            f"{worse} Look at the added lines and send the whole change again. (The "
            "user can skip this check with --no-parse-check.)",
        )


def _is_empty(data: bytes) -> bool:
    """Is there nothing but white space, and perhaps a byte-order mark?"""
    mark = next((mark for mark in _MARKS if data.startswith(mark)), b"")
    return not data[len(mark) :].strip(b"\0 \t\r\n\v\f")


def check_added(added: Sequence[str], before: Sequence[str]) -> None:
    """Raises PatchError if an added line is a placeholder for omitted code."""
    present = set(before)
    for line in added:
        if line not in present and is_spoken_elision(line):
            raise _elided(line)


def check_conflict(added: Sequence[str], before: Sequence[str]) -> None:
    """Raises PatchError if the added lines contain merge conflict markers and the file had none."""
    marks = [line[:7] for line in added if _CONFLICT.match(line)]
    if {"<" * 7, "=" * 7, ">" * 7} <= set(marks) and not any(_CONFLICT.match(line) for line in before):
        raise PatchError(
            "conflict-markers",
            "the added lines contain merge conflict markers (`<<<<<<<`, `=======`, `>>>>>>>`). Send the resolved "
            "lines.",
        )


def _elided(line: str) -> PatchError:
    return PatchError(
        "elided",
        f"the line `{line.strip()}` is a placeholder for omitted code. Write all lines in full, or send a "
        "unified diff of only what changes.",
    )


def check_left_out(gone: Sequence[str], added: Sequence[str]) -> None:
    """Raises PatchError if a new line such as `...` replaces several old ones in a whole text."""
    if sum(not is_blank(line) for line in gone) < 2:
        return
    for line in added:
        if line not in gone and is_elision(line):
            raise _elided(line)


def check_whole(before: Sequence[str], after: Sequence[str]) -> None:
    """Raises PatchError if the new text of a whole file looks like a part of it, or like another file."""
    old = [line.strip() for line in before if not is_blank(line)]
    new = [line.strip() for line in after if not is_blank(line)]
    kept = sum((Counter(old) & Counter(new)).values())
    if len(old) < 8 and kept < len(new):
        return
    if 2 * len(new) < len(old) or 10 * kept < len(old):
        raise PatchError(
            "empties-file",
            f"the answer would replace the whole file and keep only {kept} of its {len(old)} lines. "
            "To change a part of it, send a unified diff; to rewrite it, send a diff that deletes the old lines.",
        )
