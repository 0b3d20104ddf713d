"""Which files are too long to be shown whole, and how much of each is shown."""

from __future__ import annotations

from collections.abc import Mapping

from repoagent.dataclass import dataclass

INLINE_BYTES = 64 * 1024
PARTS_BYTES, MAP_BYTES = 24 * 1024, 6 * 1024  # of one file, at most
LEAST_BYTES = 3 * 1024  # of one file, however many there are
BYTES_A_TOKEN = 3  # as `estimate_tokens` counts
SPARE_TOKENS = 1_000  # for the words between the blocks


@dataclass(frozen=True)
class Room:
    """How many bytes of a long file's parts, and of its outline, a prompt shows."""

    parts: int
    map: int


def room_for_files(window: int | None, output_tokens: int, other_tokens: int) -> int | None:
    """The bytes that files may take of a model's window of so many tokens, with its reply and the other blocks in it;
    None where nobody knows the window."""
    if window is None:
        return None
    left = window - min(output_tokens, window // 2) - other_tokens - SPARE_TOKENS
    return max(0, left) * BYTES_A_TOKEN


def limit_for(inline: int, window: int | None) -> int:
    """From how many bytes on a file may turn out to be too long."""
    return inline if window is None else min(inline, window * BYTES_A_TOKEN // 4)


def too_long(sizes: Mapping[str, int], inline: int, room: int | None) -> dict[str, Room]:
    """The files that are not shown whole, of these by their bytes: those above `inline`, and as many of the longest as
    have no place in `room`. All of them together take about what one inline file may, and half of what is left of
    `room`: the other half is for what the model reads."""
    left = room
    cut: list[str] = []
    waiting = len(sizes)
    for path in sorted(sizes, key=sizes.__getitem__):
        share = sizes[path] if left is None else left // waiting
        if sizes[path] <= min(inline, share):
            left = None if left is None else left - sizes[path]
        else:
            cut.append(path)
        waiting -= 1
    if not cut:
        return {}
    all_of_them = max(inline, LEAST_BYTES) if left is None else min(max(inline, LEAST_BYTES), left // 2)
    each = max(LEAST_BYTES, min(PARTS_BYTES + MAP_BYTES, all_of_them // max(2, len(cut))))
    shown = Room(
        each * PARTS_BYTES // (PARTS_BYTES + MAP_BYTES), each * MAP_BYTES // (PARTS_BYTES + MAP_BYTES)
    )
    return dict.fromkeys(cut, shown)
