"""What a change adds that a reader of its diff would not see, or not as it is."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from repoagent.patch import decode
from repoagent.repo.change import EXECUTABLE, FileChange

# What changes the direction of text ("Trojan Source"), what has no width, and what a terminal obeys. Not among
# them: the two joiners that scripts and emoji are written with, and a byte-order mark at the very beginning.
_UNSEEN = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
_NAMED = 4


def unseen(changes: Iterable[FileChange]) -> Iterator[str]:
    """A sentence for each file that gets such characters, or becomes a program."""
    for change in changes:
        if change.path is None:
            continue
        if found := _characters(change):
            codes = ", ".join(f"U+{ord(char):04X}" for char in sorted(found)[:_NAMED])
            more = " and others" if len(found) > _NAMED else ""
            yield f"lines added to {change.path} hold characters that do not show: {codes}{more}"
        if change.mode == EXECUTABLE and change.old_mode != EXECUTABLE:
            yield f"{change.path} becomes executable"


def _characters(change: FileChange) -> set[str]:
    after = decode(change.after or b"")
    if after is None or after.encoding == "latin-1" or not _UNSEEN.search("".join(after.lines)):
        return set()
    before = decode(change.before or b"")
    added = Counter(after.lines) - Counter(before.lines if before is not None else ())
    return {char for line in added for char in _UNSEEN.findall(line)}
