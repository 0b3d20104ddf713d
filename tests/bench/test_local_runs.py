"""The harness of bench/local, with programs in the place of models."""

from __future__ import annotations

import json
import shlex
import sys
import tempfile
from pathlib import Path

import pytest

from bench.local.__main__ import main
from bench.local.runs import pasted, question
from bench.local.tasks import FOLDER, load

pytestmark = pytest.mark.soak

TASK = "median-even"


def model(tmp_path: Path, answer: str) -> str:
    """A program that gives this answer whatever it reads."""
    file = tmp_path / "answer.txt"
    file.write_text(answer)
    code = f"import sys; sys.stdin.read(); print(open({str(file)!r}).read())"
    return f"command:{shlex.quote(sys.executable)} -c {shlex.quote(code)}"


def answer(variant: str, also: str = "") -> str:
    with tempfile.TemporaryDirectory() as folder:
        load(FOLDER / TASK).write(Path(folder), variant)
        text = Path(folder, "stats.py").read_text() + also
    return f"median takes the mean.\n\n```stats.py\n{text}```\n"


def results(tmp_path: Path, said: str, *arguments: str) -> dict[tuple[str, bool], dict[str, object]]:
    file = tmp_path / "results.jsonl"
    options = ["--model", model(tmp_path, said), "--task", TASK, "--results", str(file), *arguments]
    main(options)
    found = [json.loads(line) for line in file.read_text().splitlines()]
    return {(line["format"], line["loop"]): line for line in found}


@pytest.mark.parametrize(
    ("said", "outcomes"),
    [
        (answer("after"), ("solved", "solved", "solved")),
        pytest.param(answer("wrong"), ("wrong", "wrong", "failed"), marks=pytest.mark.soak),
        pytest.param(
            answer("after", "# the end\n"), ("damaged", "damaged", "damaged"), marks=pytest.mark.soak
        ),
        ("I can't.", ("refused", "refused", "refused")),
    ],
    ids=["solved", "wrong", "damaged", "refused"],
)
def test_what_happened_is_told_apart(tmp_path: Path, said: str, outcomes: tuple[str, ...]) -> None:
    found = results(tmp_path, said, "--format", "paste", "whole", "--turns", "2")
    cases = (("paste", False), ("whole", False), ("whole", True))
    assert tuple(found[case]["outcome"] for case in cases) == outcomes
    assert all(found[case]["calls"] for case in cases)
    kept = tmp_path / "results" / f"{TASK}-whole-loop"
    assert list(kept.rglob("*.md"))
    assert (kept / "result.diff").exists()


def test_a_run_that_was_stopped_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = results(tmp_path, answer("after"), "--format", "paste")
    capsys.readouterr()
    with pytest.raises(SystemExit, match="--resume"):
        results(tmp_path, "nothing", "--format", "paste")
    assert results(tmp_path, "nothing", "--format", "paste", "--resume") == first
    assert "1        1" in capsys.readouterr().out


def test_pasting_keeps_line_endings_and_a_missing_last_one() -> None:
    crlf = load(FOLDER / "query-repeated")
    assert "\r" not in question(crlf)
    assert pasted(crlf, "So:\n```js\na\nb\n```\n") == {"lib/query.js": b"a\r\nb\r\n"}
    assert pasted(load(FOLDER / "notes-hidden"), "```\na\n```") == {"notes": b"a"}
    two = load(FOLDER / "rename-total")
    assert pasted(two, "```\na\n```") == {}
    assert list(pasted(two, "```\na\n```\nand\n```\nb\n```").values()) == [b"a\n", b"b\n"]
