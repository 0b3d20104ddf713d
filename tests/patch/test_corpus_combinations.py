"""Slips of the corpus that go together must still be something that a tool or a model could have written."""

from __future__ import annotations

from random import Random

import pytest

from bench.patch.corpus import SLIPS
from bench.patch.draft import Draft, draft
from bench.patch.model import Change, Edit, File, Seed
from bench.patch.slip import FILE, RAW

LINES = tuple(f"line {n}" for n in range(40))


def answer(*names: str, path: str = "src/x.py", added: str = "new") -> str:
    """The answer with these slips, of a change of two places in one file."""
    edits = [Edit(5, 6, (added,)), Edit(30, 31, ("other",))]
    after = (*LINES[:5], added, *LINES[6:30], "other", *LINES[31:])
    seed = Seed("some/one", "0", "Python", (Change(File(path, LINES), File(path, after), edits),))
    made = draft(seed, Random(1))
    slips = sorted((SLIPS[name] for name in names), key=lambda slip: slip.stage)
    assert all(slip.do(made) for slip in slips if slip.stage == FILE)
    made.build()
    assert all(slip.do(made) for slip in slips if FILE < slip.stage <= RAW)
    if not made.blocks:
        made.render()
    assert all(slip.do(made) for slip in slips if slip.stage > RAW)
    return made.text()


QUOTED = '+++ "b/src/\\303\\274ber-x.py"'


@pytest.mark.parametrize(
    ("naming", "line"),
    [
        ("names-timestamps", QUOTED + "\t2026-11-02 10:00:07.000000000 +0100"),
        ("names-dates-spaced", QUOTED.replace("b/", "") + " 2026-11-02 10:00:07"),
        ("names-remark", QUOTED + " (modified)"),
        ("names-trailing-space", QUOTED + "  "),
        ("names-quoted", QUOTED),
        ("names-in-code-marks", "+++ `src/über-x.py`"),
        ("names-bold", "+++ **src/über-x.py**"),
        ("backslashes", '+++ "b\\\\src\\\\\\303\\274ber-x.py"'),
        ("stars", '--- "b/src/\\303\\274ber-x.py"'),
    ],
)
def test_only_the_name_is_quoted_as_git_quotes_it(naming: str, line: str) -> None:
    lines = answer("path-c-style", naming).split("\n")
    assert line in lines
    assert not any("\\303" in text for text in lines if text[:4] not in {"--- ", "+++ ", "*** ", "diff"})


def test_a_byte_order_mark_is_the_first_character() -> None:
    assert answer("answer-with-byte-order-mark", "in-a-list").startswith("\ufeff")
    assert answer("in-a-list", "answer-with-byte-order-mark").count("\ufeff") == 1


def test_the_last_part_of_a_path_is_not_all_there_is_where_two_files_have_it() -> None:
    same = Draft(Seed("some/one", "0", "", ()), Random(1), [])
    same.changes = [Change(File("src/x.py", LINES), File("src/x.py", LINES[1:]), [Edit(0, 1, ())])]
    same.build()
    assert SLIPS["base-name-only"].do(same)
    same.extra["other/place/x.py"] = (b"", "100644")
    assert not SLIPS["base-name-only"].do(same)
