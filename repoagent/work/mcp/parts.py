"""The tool that gives a long file in parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from repoagent.agent import fence
from repoagent.errors import UsageError
from repoagent.work.mcp import shape
from repoagent.work.mcp.bench import MOST, bench, clipped
from repoagent.work.mcp.offer import Call, Offer, Told

if TYPE_CHECKING:
    from repoagent.split.artifact import IndexedSegment

NAMES = 8  # symbols that a segment is described by


def segments(call: Call) -> Told:
    from repoagent.edit.briefing.context import quoted, shown
    from repoagent.edit.large.reading import read_part
    from repoagent.work.answers.segments import split_of

    here = bench(call)
    path = here.path(call.arguments["path"])
    found = split_of(
        here.worktree, path, target=call.arguments["target_bytes"], natural=call.arguments["natural"]
    )
    data: dict[str, Any] = {
        "path": found.path,
        "blob": found.blob,
        "language": found.language,
        "bytes": found.size,
        "count": len(found.segments),
    }
    number = call.arguments.get("segment")
    if number is None:
        most = call.arguments["limit"]
        data["segments"] = [_segment(n, one) for n, one in enumerate(found.segments[:most], 1)]
        lines = [
            f"{one['number']}  lines {one['first_line']}-{one['last_line']}  {one['bytes']} bytes  "
            f"{' > '.join([*one['scope'], ', '.join(one['symbols'])])}".rstrip()
            for one in data["segments"]
        ]
        listing = "\n".join(lines)
        head = f"{path}, blob {found.blob}: segments 1 to {len(found.segments)}; give `segment` to read one."
        return Told(f"{head}\n{fence(clipped(listing), 'segments')}", data)
    if number > len(found.segments):
        raise UsageError(f"there is no segment {number} of {path}: the last one is {len(found.segments)}")
    one = found.segments[number - 1]
    shown(found.data)  # what is a key in the whole is one in a part too
    part = read_part(shown(found.text(one)), "", "", MOST)
    data |= {"segments": [_segment(number, one)], "text": part.text, "cut": bool(part.rest)}
    label = f'file path={quoted(path)} blob="{found.blob}" lines="{one.first_line}-{one.last_line}"'
    rest = (
        "The segment is longer than what is shown: use `read` with lines for the rest." if part.rest else ""
    )
    return Told(f"{fence(part.text, label)}\n{rest}".rstrip(), data)


def _segment(number: int, segment: IndexedSegment) -> dict[str, Any]:
    return {
        "number": number,
        "first_line": segment.first_line,
        "last_line": segment.last_line,
        "bytes": segment.end - segment.start,
        "scope": list(segment.scope),
        "symbols": [symbol.name for symbol in segment.symbols[:NAMES]],
    }


OFFER = Offer(
    "segments",
    "A long file in parts",
    "Cuts a file at its natural seams (between functions, sections, keys) into segments and lists them; with "
    "`segment` it gives the text of one. Use it to work through a file that is too long to read at once. The same "
    "arguments give the same segments as long as the file's blob is the same.",
    shape.takes(
        ["path"],
        path=shape.text("Path of a file, from the top of the repository."),
        segment=shape.whole("The number of the segment to read, from 1; without it they are listed.", 1, 1_000_000),
        target_bytes=shape.whole("The most that a segment may have, in bytes.", 256, 24 * 1024, 16 * 1024),
        natural=shape.yes_no("One segment for each outermost unit, however small.", default=False),
        limit=shape.whole("List at most so many segments.", 1, 500, 200),
    ),
    shape.gives(
        path="text", blob="text", language="text?", bytes="whole", count="whole",
        segments=shape.listed(
            shape.gives(
                number="whole", first_line="whole", last_line="whole", bytes="whole", scope="text*",
                symbols="text*",
            )
        ),
    ),
    segments,
)  # fmt: skip
