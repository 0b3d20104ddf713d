"""SEARCH/REPLACE blocks of several tools, and whole files."""

from __future__ import annotations

import time
from contextlib import nullcontext

import pytest

from repoagent.patch.refusal import NoPatch, PatchRefused
from tests.patch.helpers import APP, after, reasons, run

CHANGED = APP.replace(b'"hello "', b'"hi "')
OLD, NEW = '    return "hello " + name\n', '    return "hi " + name\n'
MARKS = {
    "aider": ("<<<<<<< SEARCH", "=======", ">>>>>>> REPLACE"),
    "five": ("<<<<< SEARCH", "=====", ">>>>> REPLACE"),
    "nine": ("<<<<<<<<< SEARCH", "=========", ">>>>>>>>> REPLACE"),
    "original": ("<<<<<<< ORIGINAL", "=======", ">>>>>>> UPDATED"),
    "four": ("<<<< ORIGINAL", "====", ">>>> UPDATED"),
    "cline": ("------- SEARCH", "=======", "+++++++ REPLACE"),
    "tight": ("<<<<<<<SEARCH", "=======", ">>>>>>>REPLACE"),
    "trailing space": ("<<<<<<< SEARCH  ", "=======  ", ">>>>>>> REPLACE  "),
    "line number": ("<<<<<<< SEARCH\n:start_line:6\n-------", "=======", ">>>>>>> REPLACE"),
}


def block(old: str = OLD, new: str = NEW, marks: str = "aider") -> str:
    opening, divider, closing = MARKS[marks]
    return f"{opening}\n{old}{divider}\n{new}{closing}\n"


@pytest.mark.parametrize("marks", MARKS)
def test_locations_of_blocks(marks: str) -> None:
    for where in (
        "app.py\n{}",
        "```python\napp.py\n{}```\n",
        "app.py\n```python\n{}```\n",
        "```python app.py\n{}```\n",
        "### `app.py`\n\n```\n{}```\n",
        "```\n# app.py\n{}```\n",
        "Do this:\n\n{}\nDone.",
        "{}",
    ):
        answer = where.format(block(marks=marks))
        assert after(answer) == CHANGED, where
        assert after(answer.replace("\n", "\r\n")) == CHANGED, where
        assert after("".join(f"> {line}\n" for line in answer.splitlines())) == CHANGED, where


def test_an_empty_search_creates_a_file() -> None:
    answer = "new.py\n<<<<<<< SEARCH\n=======\nx = 1\n>>>>>>> REPLACE\n"
    (change,) = run(answer, may_create=lambda path: path == "new.py").changes
    assert (change.old_path, change.path, change.after) == (None, "new.py", b"x = 1\n")
    assert reasons(answer.replace("new.py", "app.py")) == {"no-context"}


CONFLICT = "a\n<<<<<<< HEAD\nours\n=======\ntheirs\n>>>>>>> branch\nz\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (CONFLICT, "ours\n"),
        (CONFLICT, CONFLICT.replace("z", "y")),
        *((f"{line}\na\n", f"{line}\nb\n") for line in ("<<<<<<< HEAD", ">>>>>>> branch", "-------")),
    ],
)
def test_conflict_markers_and_rules_as_text(old: str, new: str) -> None:
    for answer in (f"app.py\n{block(old, new)}", f"app.py\n```\n{block(old, new)}```\n"):
        assert after(answer, old.encode()) == new.encode()


def test_ambiguous_dividers_are_refused() -> None:
    assert reasons("app.py\n" + block("import sys\n", "a\n=======\nb\n")) == {"malformed"}
    before = b"a\n=======\nb\n=======\nc\n"
    assert reasons("app.py\n" + block("a\n=======\nb\n", "=======\nx\n"), before) == {"malformed"}


@pytest.mark.parametrize(
    "answer",
    [
        "app.py\n<<<<<<< SEARCH\na\n>>>>>>> REPLACE\n",
        "```\napp.py\n<<<<<<< SEARCH\na\n<<<<<<< SEARCH\n=======\nb\n>>>>>>> REPLACE\n```\n",
        "```\napp.py\n<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n>>>>>>> REPLACE\n```\n",
    ],
)
def test_markers_out_of_order_are_refused(answer: str) -> None:
    assert reasons(answer) == {"malformed"}


def test_fences_in_the_text_of_a_fenced_block() -> None:
    before = b"# A\n```sh\nmake\n```\n\n```\nx\n```\nend\n"
    answer = "app.py\n```\n" + block("```sh\nmake\n```\n", "```sh\nmake test\n```\n") + "```\nDone.\n"
    assert after(answer, before) == before.replace(b"make", b"make test")
    answer = (
        "app.py\n```\n" + block("```\nx\n```\n", "```\ny\n```\n") + block("end\n", "fin\n") + "```\nDone.\n"
    )
    assert after(answer, before) == before.replace(b"\nx\n", b"\ny\n").replace(b"end", b"fin")


WHOLE = CHANGED.decode()


@pytest.mark.parametrize("command", ["cat > app.py <<'EOF'", "$ tee app.py << EOF", "git apply <<'EOF'"])
def test_a_script_that_writes_files_is_not_a_file(command: str) -> None:
    with pytest.raises(NoPatch):
        run(f"app.py\n```sh\n{command}\n{WHOLE}EOF\n```\n")


def test_a_script_inside_another_file_is_not_a_patch() -> None:
    before = b"steps:\n  - run: |\n      cat <<'EOF' >Dockerfile\n      FROM x\n      EOF\nend: 1\n"
    answer = f"Here it is:\n\n```yaml\n{before.decode().replace('FROM x', 'FROM y')}```\n"
    assert after(answer, before) == before.replace(b"FROM x", b"FROM y")


def many(count: int, prefix: str = "") -> str:
    lines = (f"<<<<<<< SEARCH\n{prefix}x{n}\n=======\ny{n}\n>>>>>>> REPLACE\n" for n in range(count))
    return "a.py\n" + "".join(lines)


@pytest.mark.parametrize("prefix", ["", "not there: "])
def test_many_blocks_take_linear_time(prefix: str) -> None:
    seconds = []
    for count in (200, 1_000):
        source = {"a.py": "".join(f"x{n}\n" for n in range(count)).encode()}
        began = time.process_time()
        with pytest.raises(PatchRefused) if prefix else nullcontext():
            run(many(count, prefix), source)
        seconds.append(time.process_time() - began)
    assert seconds[1] < 12 * seconds[0] + 0.2, seconds  # 5 times as many blocks
