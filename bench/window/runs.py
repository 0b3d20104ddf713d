"""Simulated runs: turns with the sizes that reads, outputs and edits have, from a seed."""

from __future__ import annotations

import random
from collections.abc import Iterator

from repoagent.llm.conversation import Turn
from repoagent.llm.model import fence

SPILLED = 8192  # bytes: what is longer went to a file as it came
_WORDS = [
    "value",
    "index",
    "self",
    "return",
    "parse",
    "token",
    "line",
    "buffer",
    "state",
    "error",
    "path",
    "node",
    "item",
    "count",
    "next",
    "reader",
]


def simulated(seed: int, least: int = 60, most: int = 200) -> tuple[Turn, ...]:
    """The turns of one run: what is asked, then `least` to `most` steps; the person speaks again now and then."""
    chance = random.Random(seed)
    turns = [Turn("user", _prose(chance, 900))]
    for number in range(chance.randint(least, most)):
        if number and chance.random() < 0.02:
            turns.append(Turn("user", _prose(chance, 300)))
        turns += _step(chance)
    return tuple(turns)


def _step(chance: random.Random) -> Iterator[Turn]:
    kinds = chance.choices(
        [("read",), ("read", "read"), ("search",), ("run",), ("edit",), ("edit", "run")],
        [32, 8, 14, 16, 18, 12],
    )[0]
    said, seen = [_prose(chance, _size(chance, 260, 0.7, 2_000))], []
    for kind in kinds:
        path = f"src/{chance.choice(_WORDS)}/{chance.choice(_WORDS)}.py"
        if kind == "read":
            first = chance.choice([1, 1, 120, 300])
            text = _code(chance, min(SPILLED, _size(chance, 4_500, 0.8, 40_000)))
            lines = f"{first}-{first + text.count(chr(10)) - 1}"
            said.append(f'<read path="{path}" lines="{lines}"/>')
            seen.append((kind, fence(text, f'file path="{path}" blob="1" lines="{lines}"')))
        elif kind == "search":
            said.append(f'<search pattern="{chance.choice(_WORDS)}"/>')
            seen.append(
                (kind, fence(_code(chance, min(SPILLED, _size(chance, 1_500, 0.9, 40_000))), "matches"))
            )
        elif kind == "run":
            text = _code(chance, min(SPILLED, _size(chance, 1_800, 1.2, 60_000)))
            said.append("<run>make test</run>")
            seen.append((kind, f"exit {chance.choice([0, 0, 1, 2])}\n{fence(text, 'output')}"))
        else:
            patch = "".join(f"+{row}\n" for row in _code(chance, _size(chance, 900, 0.8, 8_000)).splitlines())
            said.append(f"```diff\n--- a/{path}\n+++ b/{path}\n@@\n-old\n{patch}```")
            seen.append((kind, "Applied."))
    yield Turn("assistant", "\n".join(said))
    for kind, text in seen:
        yield Turn("observation", text, {"kind": kind, "ok": "yes"})


def _size(chance: random.Random, middle: float, spread: float, most: int) -> int:
    """Bytes: log-normal, as sizes of files and outputs are."""
    return min(most, max(40, int(middle * chance.lognormvariate(0, spread))))


def _prose(chance: random.Random, size: int) -> str:
    return " ".join(chance.choices(_WORDS, k=max(1, size // 6))).capitalize() + "."


def _code(chance: random.Random, size: int) -> str:
    rows = []
    while size > 0:
        rows.append(" " * chance.choice([0, 4, 8]) + " ".join(chance.choices(_WORDS, k=chance.randint(2, 9))))
        size -= len(rows[-1]) + 1
    return "\n".join(rows) + "\n"
