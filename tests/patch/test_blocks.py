"""SEARCH/REPLACE blocks of several tools, and whole files."""

from __future__ import annotations

import time

import pytest

from repoagent.patch.apply_answer import apply_answer
from repoagent.patch.model import SourceText
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
@pytest.mark.parametrize(
    "where",
    [
        "app.py\n{}",
        "```python\napp.py\n{}```\n",
        "app.py\n```python\n{}```\n",
        "```python app.py\n{}```\n",
        "### `app.py`\n\n```\n{}```\n",
        "```\n# app.py\n{}```\n",
        "Do this:\n\n{}\nDone.",
        "{}",
    ],
)
def test_locations_of_blocks(where: str, marks: str) -> None:
    answer = where.format(block(marks=marks))
    assert after(answer) == CHANGED
    assert after(answer.replace("\n", "\r\n")) == CHANGED
    assert after("".join(f"> {line}\n" for line in answer.splitlines())) == CHANGED


def test_an_empty_search_creates_a_file() -> None:
    answer = "new.py\n<<<<<<< SEARCH\n=======\nx = 1\n>>>>>>> REPLACE\n"
    (change,) = run(answer, may_create=lambda path: path == "new.py").changes
    assert (change.old_path, change.path, change.after) == (None, "new.py", b"x = 1\n")
    assert reasons(answer.replace("new.py", "app.py")) == {"no-context"}


CONFLICT = b"a\n<<<<<<< HEAD\nours\n=======\ntheirs\n>>>>>>> branch\nz\n"


def test_conflict_markers_as_text() -> None:
    text = CONFLICT.decode()
    assert after(f"app.py\n{block(text, 'ours' + chr(10))}", CONFLICT) == b"ours\n"
    assert after(f"app.py\n```\n{block(text, text.replace('z', 'y'))}```\n", CONFLICT) == CONFLICT.replace(
        b"z", b"y"
    )


@pytest.mark.parametrize("line", ["<<<<<<< HEAD\n", ">>>>>>> branch\n", "-------\n"])
def test_a_part_of_a_conflict_or_a_rule_as_text(line: str) -> None:
    assert (
        after(f"app.py\n{block(f'{line}a{chr(10)}', f'{line}b{chr(10)}')}", f"{line}a\n".encode())
        == f"{line}b\n".encode()
    )


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
    for count in (300, 1_800):
        source = SourceText("".join(f"x{n}\n" for n in range(count)).encode(), "100644")
        began = time.process_time()
        if prefix:
            with pytest.raises(PatchRefused):
                apply_answer(many(count, prefix), {"a.py": source})
        else:
            apply_answer(many(count), {"a.py": source})
        seconds.append(time.process_time() - began)
    assert seconds[1] < 15 * seconds[0] + 0.2, seconds  # 6 times as many blocks
