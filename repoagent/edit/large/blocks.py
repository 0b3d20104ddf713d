"""The blocks of those files of a prompt that are too long for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field

from repoagent.dataclass import dataclass
from repoagent.edit.large.block import bare_block, excerpt_of, large_block
from repoagent.edit.large.parts import About
from repoagent.edit.large.recent import Touched
from repoagent.edit.large.room import INLINE_BYTES, room_for_files, too_long
from repoagent.edit.request import EditRequest
from repoagent.repo import Source


@dataclass(frozen=True)
class Around:
    """What decides how much of a file is shown: the limit of the configuration in bytes, the model's window in tokens
    (None where nobody knows), and what of that the reply and the other blocks take. `bare`: for a model without
    tools."""

    inline: int = INLINE_BYTES
    window: int | None = None
    output_tokens: int = 0
    other_tokens: int = 0
    bare: bool = False
    recent: Mapping[str, tuple[Touched, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Long:
    """The block of a file that is not shown whole, and the lines that are (from 1, both included)."""

    text: str
    lines: tuple[tuple[int, int], ...]


def long_files(sources: Iterable[Source], request: EditRequest, around: Around) -> dict[str, Long]:
    """Those of these files that are too long to be shown whole, by path; the others are not in it."""
    known = {source.path: source for source in sources if source.data is not None and not source.binary}
    room = room_for_files(around.window, around.output_tokens, around.other_tokens)
    sizes = {path: len(source.data or b"") for path, source in known.items()}
    found = {}
    for path, share in too_long(sizes, around.inline, room).items():
        source = known[path]
        places = tuple(
            (target.first, target.last or target.first)
            for target in request.targets
            if target.path == path and target.first is not None
        )
        about = About(request.instruction, places, around.recent.get(path, ()))
        excerpt = excerpt_of(path, source.data or b"", about, share)
        role = "file to edit" if path in request.paths else "for reading only"
        text = bare_block(source, excerpt) if around.bare else large_block(source, role, excerpt)
        found[path] = Long(text, tuple((part.first, part.last) for part in excerpt.parts))
    return found
