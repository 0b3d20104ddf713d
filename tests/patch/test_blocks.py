"""SEARCH/REPLACE blocks of several tools, and whole files."""

from __future__ import annotations

import time
from contextlib import nullcontext

import pytest

from repoagent.patch.refusal import NoPatch, PatchRefused
from tests.patch.helpers import APP, after, each, reasons, run

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
    "line number": ("<<<<<<< SEARCH\n:start_line:6\n-------", "=======", ">>>>>>> REPLACE"),
    "trailing space": ("<<<<<<< SEARCH  ", "=======  ", ">>>>>>> REPLACE  "),
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
        assert after(each("> ", answer)) == CHANGED, where


def test_an_empty_search_creates_a_file() -> None:
    answer = "new.py\n<<<<<<< SEARCH\n=======\nx = 1\n>>>>>>> REPLACE\n"
    (change,) = run(answer, may_create=lambda path: path == "new.py").changes
    assert (change.old_path, change.path, change.after) == (None, "new.py", b"x = 1\n")
    assert reasons(answer.replace("new.py", "app.py")) == {"no-context"}


MANY_DIVIDERS = b"x\n" + b"=======\n" * 20
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


@pytest.mark.parametrize(
    ("answer", "source"),
    [
        # more than one line may divide the text
        ("app.py\n" + block("import sys\n", "a\n=======\nb\n"), APP),
        ("app.py\n" + block("a\n=======\nb\n", "=======\nx\n"), b"a\n=======\nb\n=======\nc\n"),
        ("app.py\n" + block("x\n", "=======\n" * 40 + "y\n"), MANY_DIVIDERS),
        # markers are out of order
        ("app.py\n<<<<<<< SEARCH\na\n>>>>>>> REPLACE\n", APP),
        ("```\napp.py\n<<<<<<< SEARCH\na\n<<<<<<< SEARCH\n=======\nb\n>>>>>>> REPLACE\n```\n", APP),
        ("```\napp.py\n<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n>>>>>>> REPLACE\n```\n", APP),
    ],
)
def test_unclear_markers_are_refused(answer: str, source: bytes) -> None:
    assert reasons(answer, source) == {"malformed"}


def test_a_block_has_at_most_40_dividers() -> None:
    answer = "app.py\n" + block("x\n", "=======\n" * 39 + "y\n")
    assert after(answer, MANY_DIVIDERS).endswith(b"y\n")


@pytest.mark.parametrize("numbers", [":start_line:1\n", ":start_line:1\n:end_line:1\n", ":end_line:1\n"])
@pytest.mark.parametrize("rule", ["", "-------\n"])
def test_line_numbers_in_a_block_are_not_text(numbers: str, rule: str) -> None:
    answer = "app.py\n" + block(f"{numbers}{rule}import sys\n", "import os\n")
    assert after(answer) == APP.replace(b"import sys", b"import os")


def test_fences_in_the_text_of_a_fenced_block() -> None:
    before = b"# A\n```sh\nmake\n```\n\n```\nx\n```\nend\n"
    answer = "app.py\n```\n" + block("```sh\nmake\n```\n", "```sh\nmake test\n```\n") + "```\nDone.\n"
    assert after(answer, before) == before.replace(b"make", b"make test")
    blocks = block("```\nx\n```\n", "```\ny\n```\n") + block("end\n", "fin\n")
    answer = f"app.py\n```\n{blocks}```\nDone.\n"
    assert after(answer, before) == before.replace(b"\nx\n", b"\ny\n").replace(b"end", b"fin")


@pytest.mark.parametrize("command", ["cat > app.py <<'EOF'", "$ tee app.py << EOF", "git apply <<'EOF'"])
def test_a_script_that_writes_files_is_not_a_file(command: str) -> None:
    with pytest.raises(NoPatch):
        run(f"app.py\n```sh\n{command}\n{CHANGED.decode()}EOF\n```\n")


def test_a_script_inside_another_file_is_not_a_patch() -> None:
    before = b"steps:\n  - run: |\n      cat <<'EOF' >Dockerfile\n      FROM x\n      EOF\nend: 1\n"
    answer = f"Here it is:\n\n```yaml\n{before.decode().replace('FROM x', 'FROM y')}```\n"
    assert after(answer, before) == before.replace(b"FROM x", b"FROM y")


@pytest.mark.parametrize("prefix", ["", "not there: "])
def test_many_blocks_take_linear_time(prefix: str) -> None:
    seconds = []
    for count in (200, 1_000):
        source = "".join(f"x{n}\n" for n in range(count)).encode()
        blocks = "".join(block(f"{prefix}x{n}\n", f"y{n}\n") for n in range(count))
        began = time.process_time()
        with pytest.raises(PatchRefused) if prefix else nullcontext():
            run(f"app.py\n{blocks}", source)
        seconds.append(time.process_time() - began)
    assert seconds[1] < 12 * seconds[0] + 0.2, seconds  # 5 times as many blocks
