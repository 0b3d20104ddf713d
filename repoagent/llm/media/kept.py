"""Images and PDFs that a conversation refers to: the conversation file names a copy, and a request gets its bytes.

The copy is named by the hash of its bytes, so each later request, also that of a resumed run, has the same ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from repoagent.dataclass import dataclass
from repoagent.errors import UsageError
from repoagent.llm.conversation import ATTACHED, Turn
from repoagent.llm.media.media import Media
from repoagent.llm.media.read import media_of

AT_ONCE = 8  # are left out together where all are too much: each request then begins as the one before
_REFERENCE = re.compile(r"(([0-9a-f]{32})\.[a-z]{3,4}) (\d{1,9}) (.+)", re.DOTALL)


class Reference(NamedTuple):
    """What a turn says of its attachment: the name of the copy, the start of its hash, its tokens, its path."""

    copy: str
    hash: str
    tokens: int
    path: str


def reference(turn: Turn) -> Reference | None:
    """The attachment of a turn; None where it has none."""
    found = _REFERENCE.fullmatch(turn.meta.get(ATTACHED, ""))
    return Reference(found[1], found[2], int(found[3]), found[4]) if found else None


@dataclass(frozen=True)
class Attachments:
    """The copies in `folder`. `why_not` says why the model that is asked now can't be sent these together, "" where it
    can."""

    folder: Path
    why_not: Callable[[Sequence[Media]], str]
    _read: dict[str, Media | None] = field(default_factory=dict)

    def keep(self, media: Media) -> str:
        """Keep a copy; what the turn says of it. Raises Refused where it can't be written."""
        from repoagent.store import read_regular, write_whole

        name = f"{media.sha256[:32]}.{media.type.partition('/')[2]}"
        if not self.folder.is_dir() or read_regular(self.folder / name) != media.data:
            write_whole(self.folder / name, media.data)
        return f"{name} {media.tokens} {media.name}"

    def of(self, turns: Sequence[Turn]) -> Mapping[str, Media | str]:
        """What is attached to `turns`, by what they say of it; a sentence in the place of what can't be sent."""
        found: dict[str, Media | str] = {}
        for turn in turns:
            if (said := reference(turn)) is None:
                continue
            copy = self._copy(turn.meta[ATTACHED], said)
            gone = (
                f"{said.path} is not attached: the copy that was sent is gone. Read it again if it matters."
            )
            found[turn.meta[ATTACHED]] = copy or gone
        kept = [(key, copy) for key, copy in found.items() if isinstance(copy, Media)]
        while kept and (why := self.why_not([copy for _, copy in kept])):
            found |= {key: f"{copy.name} is not attached: {why}." for key, copy in kept[:AT_ONCE]}
            kept = kept[AT_ONCE:]
        return found

    def _copy(self, key: str, said: Reference) -> Media | None:
        from repoagent.store import read_regular

        if key not in self._read:
            data = read_regular(self.folder / said.copy) or b""
            try:
                same = sha256(data).hexdigest().startswith(said.hash)
                self._read[key] = media_of(data, said.path) if same else None
            except UsageError:
                self._read[key] = None
        return self._read[key]


def in_words(media: Media) -> str:
    """What it is, for a model: "shot.png is a PNG of 800x600, 45 KB"."""
    size = -(-len(media.data) // 1024)
    if media.is_image:
        what = f"{media.type.partition('/')[2].upper()} of {media.width}x{media.height}"
    else:
        what = "PDF" + (f" of {media.pages} page{'s' * (media.pages != 1)}" if media.pages else "")
    return f"{media.name} is a {what}, {size:,} KB"
