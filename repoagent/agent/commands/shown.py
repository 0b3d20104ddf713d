"""What a model is shown of an output: of a long one its beginning, its end, and where the rest is."""

from __future__ import annotations

from pathlib import Path

from repoagent.agent.commands.screen import drawn
from repoagent.dataclass import dataclass
from repoagent.store.masking import mask

_WHOLE = 1 << 20  # bytes that are looked at as a whole: a progress bar of that length is one short line
_END = 1 << 18  # bytes that are looked at of either end of a longer one
_LINE = 1_500  # characters of one line, where not all can be shown


@dataclass(frozen=True)
class Shown:
    """Text for a model. `until`: how many bytes of the file it stands for. `cut`: not all of it is there."""

    text: str
    until: int
    cut: bool = False


def show(file: Path, name: str, budget: int, start: int = 0) -> Shown:
    """The output in `file` from byte `start` on, within `budget` bytes; `name` is what the model calls the file.

    Keys and tokens in it are masked; the file itself keeps what was printed.
    """
    with file.open("rb") as stream:
        size = stream.seek(0, 2)
        stream.seek(start)
        head = stream.read(min(size - start, _WHOLE))
        if b"\0" in head[:8192]:
            return Shown(f"(binary output of {size - start} bytes, in {name})\n", size, cut=True)
        first = 1 + (_newlines(file, 0, start) if start else 0)
        if start + len(head) >= size:
            lines = _lines(head)
            text = _joined(lines, head)
            if len(text.encode()) <= budget:
                return Shown(mask(text), size)
            return Shown(_cut((lines, lines), (first, first + len(lines) - 1), budget, name), size, cut=True)
        stream.seek(size - _END)
        tail = stream.read(_END)
    last = first + _newlines(file, start, size) - (1 if tail.endswith(b"\n") else 0)
    beginning = _lines(head[:_END])
    beginning = beginning[:-1] if len(beginning) > 1 else beginning
    ending = _lines(tail)
    ending = ending[1:] if len(ending) > 1 else ending
    return Shown(_cut((beginning, ending), (first, last), budget, name), size, cut=True)


def _lines(data: bytes) -> list[str]:
    text = data.decode("utf-8", "backslashreplace")
    return [drawn(line) for line in text.removesuffix("\n").split("\n")] if text else []


def _joined(lines: list[str], data: bytes) -> str:
    return "\n".join(lines) + ("\n" if data.endswith(b"\n") else "")


def _cut(ends: tuple[list[str], list[str]], numbers: tuple[int, int], budget: int, name: str) -> str:
    """The first lines of one end, the last of the other, and what stands between them; `numbers` are those of the first
    and the last line in the file."""
    (beginning, ending), (first, last) = ends, numbers
    head = _within(beginning, budget // 4)
    head = head[: max(0, last - first + 1)]
    room = last - first + 1 - len(head)
    tail = _within(ending[::-1], budget - budget // 4)[::-1]
    tail = tail[len(tail) - min(len(tail), room) :] if room else []
    left = last - first + 1 - len(head) - len(tail)
    if left > 0:
        where = f"{first + len(head)}-{last - len(tail)}"
        gap = [f"… {left} line{'s' if left > 1 else ''} left out: {name} lines {where} …"]
    else:
        gap = [f"… long lines are shortened: {name} has all of them …"]
    return mask("\n".join([*head, *gap, *tail]) + "\n")


def _within(lines: list[str], budget: int) -> list[str]:
    """As many of the first lines as fit into `budget` bytes, one at least; long ones shortened."""
    taken: list[str] = []
    for line in lines:
        short = line
        if len(line) > _LINE:
            left = len(line) - _LINE
            short = f"{line[: _LINE - 300]} … {left} characters left out … {line[-300:]}"
        budget -= len(short.encode()) + 1
        if budget < 0 and taken:
            break
        taken.append(short)
        if budget < 0:
            break
    return taken


def _newlines(file: Path, start: int, end: int) -> int:
    """How many newlines stand between two bytes of the file."""
    count = 0
    with file.open("rb") as stream:
        stream.seek(start)
        left = end - start
        while left > 0 and (data := stream.read(min(left, 1 << 20))):
            count += data.count(b"\n")
            left -= len(data)
    return count
