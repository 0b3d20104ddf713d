"""Random answers that withdraw, correct or repeat their diffs: only what they finally ask for is applied."""

from __future__ import annotations

import random

import pytest

from bench.patch.refusals_text import UNCLEAR
from bench.patch.slips_several import CLOSINGS, OPENINGS, PARTS, TAKEN_BACK, spoken
from repoagent.git.files import Content
from repoagent.patch.apply_answer import apply_answer
from repoagent.patch.refusal import PatchRefused

FUNCTIONS = 12
SOURCE = "".join(
    f"def f{n}(x):\n    first = {n}\n```\n    second = x + {n}\n    return first * second\n\n\n"
    for n in range(FUNCTIONS)
)
ROWS = 7  # lines of a function
Change = tuple[int, str, int]  # number of the function, name in the changed line, new value


def changed(changes: list[Change]) -> str:
    lines = SOURCE.split("\n")
    for number, name, value in changes:
        row = number * ROWS + (1 if name == "first" else 3)
        assert lines[row].strip().startswith(name)
        lines[row] = f"    {name} = {value}"
    return "\n".join(lines)


def diff(rng: random.Random, changes: list[Change], *, exact: bool) -> str:
    """Return a diff of the changed functions. If `exact`, fence lines in it may lack their first column."""
    bare = exact and rng.random() < 0.3
    hunks = []
    for number, name, value in sorted(changes):
        old = f"    first = {number}" if name == "first" else f"    second = x + {number}"
        lines = [
            f" def f{number}(x):",
            f"     first = {number}",
            "```" if bare else " ```",
            f"     second = x + {number}",
        ]
        at = 1 if name == "first" else 3
        lines[at : at + 1] = [f"-{old}", f"+    {name} = {value}"]
        start = number * ROWS + 1
        numbers = f"@@ -{start},4 +{start},4 @@" if exact or rng.random() < 0.5 else "@@"
        hunks += [numbers, *lines]
    body = "\n".join(["--- a/f.py", "+++ b/f.py", *hunks])
    return f"```diff\n{body}\n```\n"


def picked(rng: random.Random, count: int) -> list[Change]:
    numbers = rng.sample(range(FUNCTIONS), count)
    return [(number, rng.choice(("first", "second")), rng.randrange(100, 999)) for number in numbers]


def answer(rng: random.Random) -> tuple[str, list[Change] | None]:
    """Return an answer and the changes that it asks for, or None if that is unclear."""
    exact = rng.random() < 0.5
    changes = picked(rng, rng.randrange(2, 6))
    first, second = changes[: len(changes) // 2], changes[len(changes) // 2 :]
    again = [(number, name, value + 1000) for number, name, value in first]
    one, other = diff(rng, first, exact=exact), diff(rng, second, exact=exact)
    whole = diff(rng, changes, exact=exact)
    gone = spoken(rng, OPENINGS, TAKEN_BACK, CLOSINGS)
    doubt, more = spoken(rng, UNCLEAR), spoken(rng, PARTS)
    broken = one.replace(" = ", " =  nowhere ")
    corrected = diff(rng, again, exact=exact)
    return rng.choice(
        [
            (f"{one}\n{gone}\n\n{other}", second),
            (f"{whole}\n{gone}\n\n{other}", second),
            (f"{broken}\n{gone}\n\n{other}", second),
            (f"{one}\n{gone}\n\n{corrected}", again),
            (f"{one}\n{doubt}\n\n{corrected}", again),
            (f"{one}\n{doubt}\n\n{other}", None),
            (f"{whole}\n{doubt}\n\n{other}", None),
            (f"{one}\n{more}\n\n{other}", changes),
            (f"{one}\n{other}\nPlease ignore the first diff.\n", second),
            (f"{one}\nScratch that.\n", None),
            (f"<think>\n{one}</think>\n{other}", second),
            (f"{one}\n{gone}\n\n{other}\n{gone}\n\n{corrected}", again),
            (f"{whole}\nThe full diff again, to copy:\n\n{whole}", changes),
        ]
    )


@pytest.mark.soak
def test_nothing_is_applied_but_what_the_words_leave() -> None:
    refused = 0
    for seed in range(4000):
        text, meant = answer(random.Random(seed))
        try:
            applied = apply_answer(text, {"f.py": Content(SOURCE.encode())})
        except PatchRefused:
            refused += meant is not None
            continue
        assert meant is not None, (seed, text)
        assert applied.changes[0].after == changed(meant).encode(), (seed, text)
    assert refused < 40
