"""The examples on docs/patches.md are applied, and the page names each tolerance and each reason."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import repoagent.patch
from repoagent.git.files import Content
from repoagent.patch.apply_answer import apply_answer
from repoagent.patch.refusal import TOLERANCES

PAGE = (Path(__file__).parents[2] / "docs" / "patches.md").read_text(encoding="utf-8")
CODE = Path(repoagent.patch.__file__).parent
SHOP = """\
def total(items):
    result = 0
    for item in items:
        result += item.price

    return result
"""


def rows(heading: str) -> list[str]:
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE)


def test_each_example_counts_the_items_without_any_tolerance() -> None:
    examples = re.findall(r"^The answer:\n\n(`{3,})text\n(.*?)^\1$", PAGE, re.MULTILINE | re.DOTALL)
    assert len(examples) == PAGE.count("\nThe answer:\n") >= 3
    for _, answer in examples:
        applied = apply_answer(answer, {"src/shop.py": Content(SHOP.encode())})
        (change,) = applied.changes
        assert change.after == SHOP.replace("item.price", "item.price * item.count").encode()
        assert not any(place.tolerances for place in applied.placements)


def test_each_tolerance_and_every_reason_is_on_the_page_and_no_other() -> None:
    assert sorted(rows("What is tolerated")) == sorted(TOLERANCES)
    used = {code for file in CODE.rglob("*.py") for code in _reasons(file.read_text(encoding="utf-8"))}
    assert sorted(rows("What is refused, and what to do")) == sorted(used)


def _reasons(source: str) -> Iterator[str]:
    """The codes that a module gives to a PatchError or a Problem, also by way of the name `reason`."""
    for node in ast.walk(ast.parse(source)):
        places: list[ast.expr] = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            places = {"PatchError": node.args[:1], "Problem": node.args[2:3]}.get(node.func.id, [])
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "reason":
            places = [node.value.body, node.value.orelse] if isinstance(node.value, ast.IfExp) else []
        for place in places:
            if isinstance(place, ast.Constant) and re.fullmatch("[a-z-]+", str(place.value)):
                yield str(place.value)
