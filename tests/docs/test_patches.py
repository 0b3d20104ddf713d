"""The examples of patches are applied, and docs/patches.md names each tolerance and each reason."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import repoagent.patch
from repoagent.patch.apply_answer import Applied, apply_answer
from repoagent.patch.model import SourceText
from repoagent.patch.refusal import READING, TOLERANCES, PatchRefused

PAGE = Path(__file__).parents[2] / "docs" / "patches.md"
MORE = Path(__file__).parent / "patches.md"  # begins with the file and the result that examples leave out
CODE = Path(repoagent.patch.__file__).parent
SIGNS = {"·": " ", "→": "\t", "^[": "\x1b", "<U+200B>": "\u200b"}  # as the page explains them
_LABEL = re.compile(r"The (file|answer|result|refusal)(?: `([^`]+)`|, `([^`]+)`|(, as a diff))?:")
_NEEDS = re.compile(r"Tolerances: (.*)\.")


@dataclass
class Example:
    """What stands under one heading: texts by what they are, and the names that go with them."""

    path: str = "src/shop.py"
    reason: str = ""
    needs: frozenset[str] = frozenset()
    texts: dict[str, str] = field(default_factory=dict)

    def apply(self, *, strict: bool = False) -> Applied:
        sources = {self.path: SourceText(self.texts["file"].encode())}
        return apply_answer(self.texts["answer"], sources, may_create=lambda _: True, strict=strict)


def examples() -> dict[str, Example]:
    """The examples by their heading. The first two fences without a label are the file and the result that others leave out."""
    found: dict[str, Example] = {}
    unlabelled: list[str] = []
    example, label = Example(), None
    lines = iter((MORE.read_text(encoding="utf-8") + PAGE.read_text(encoding="utf-8")).splitlines())
    for line in lines:
        if mark := re.match("`{3,}", line):
            text = "".join(f"{inner}\n" for inner in iter(lines.__next__, mark[0]))
            for sign, char in SIGNS.items():
                text = text.replace(sign, char)
            if label is None:
                unlabelled.append(text)
            else:
                example.path, example.reason = label[2] or example.path, label[3] or example.reason
                example.texts["diff" if label[4] else label[1]] = text
        elif line.startswith("#"):
            heading = line.lstrip("# ").strip("`")
            example = found[heading] = Example(needs=frozenset({heading} & TOLERANCES.keys()))
        elif needs := _NEEDS.fullmatch(line):
            example.needs = frozenset(re.findall("`([^`]+)`", needs[1]))
        label = _LABEL.fullmatch(line) if line else label
    file, result, *_ = unlabelled
    found = {heading: example for heading, example in found.items() if "answer" in example.texts}
    for example in found.values():
        example.texts.setdefault("file", file)
        example.texts.setdefault("result", result)
    return found


EXAMPLES = examples()


def section(heading: str) -> str:
    return PAGE.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]


def test_each_tolerance_is_on_the_page_and_has_an_example() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \|", section("What is tolerated"), re.MULTILINE)
    assert set(rows) == TOLERANCES.keys() and len(rows) == len(TOLERANCES)
    assert TOLERANCES.keys() <= EXAMPLES.keys()
    assert len(EXAMPLES) > len(TOLERANCES) + 10


@pytest.mark.parametrize("heading", [heading for heading, one in EXAMPLES.items() if not one.reason])
def test_an_example_becomes_its_result(heading: str) -> None:
    example = EXAMPLES[heading]
    applied = example.apply()
    if "diff" in example.texts:
        assert applied.diff == example.texts["diff"]
    else:
        assert [change.after for change in applied.changes] == [example.texts["result"].encode()]
    assert {name for place in applied.placements for name in place.tolerances} == example.needs


@pytest.mark.parametrize("heading", [heading for heading, one in EXAMPLES.items() if one.reason])
def test_an_example_is_refused_in_these_words(heading: str) -> None:
    example = EXAMPLES[heading]
    with pytest.raises(PatchRefused) as caught:
        example.apply()
    assert caught.value.reasons == {example.reason}
    assert f"{caught.value}\n" == example.texts["refusal"]


@pytest.mark.parametrize("name", TOLERANCES)
def test_strict_refuses_each_tolerance(name: str) -> None:
    with pytest.raises(PatchRefused) as caught:
        EXAMPLES[name].apply(strict=True)
    assert ("strict" in caught.value.reasons) == (name in READING)


def test_strict_takes_a_hunk_that_stands_elsewhere() -> None:
    example = EXAMPLES["A diff in a fence"]
    texts = {**example.texts, "answer": example.texts["answer"].replace("-3,2 +3,2", "-73,2 +73,2")}
    (change,) = Example(texts=texts).apply(strict=True).changes
    assert change.after == texts["result"].encode()


def test_every_reason_is_on_the_page_and_no_other() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \|", section("What is refused, and what to do"), re.MULTILINE)
    used = {code for file in CODE.rglob("*.py") for code in _reasons(file.read_text(encoding="utf-8"))}
    assert set(rows) == used and len(rows) == len(used)


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
