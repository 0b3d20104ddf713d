"""Small models: the part of a long file to show, one file at a time, the first attempt after a failed check."""

from __future__ import annotations

import json

import pytest

from repoagent.edit.prompt.blocks import first_lines
from repoagent.edit.small_models.excerpts import FilePart, file_excerpt, find_windows, rows_now, window_now
from repoagent.git.files import Content, Source
from tests.cli.apply_patch import Done
from tests.conftest import GitRepo
from tests.edit.conftest import Run, Script
from tests.edit.long_file import SHOP
from tests.edit.prompt.test_formats import ROUNDED, TOTAL


def fenced(path: str, text: str) -> str:
    return f"```{path}\n{text}```\n"


def edit(run: Run, *args: str, code: int = 0) -> Done:
    done: Done = run("edit", *args, "--yes", "--format", "function", code=code)
    return done


@pytest.mark.soak
def test_a_reply_without_an_edit_goes_back_twice(repo: GitRepo, run: Run, script: Script) -> None:
    old = repo.read("src/app.py").decode()
    new = old.replace("hello ", "hi ")
    script.replies("I will change it.", "Done!", fenced("src/app.py", new))
    assert edit(run, "src/app.py", "say hi").err == ""
    assert repo.read("src/app.py").decode() == new
    assert "Your answer contains no edit." in script.prompts[1]
    assert "I will change it." not in script.prompts[1]
    script.replies("No.", "No need.", "It says hi already.")
    assert edit(run, "src/app.py", "say hi", code=1).out == "It says hi already.\n"


def test_the_model_selects_the_part(repo: GitRepo, run: Run, script: Script) -> None:
    repo.commit("shop", **{"shop.py": SHOP})
    script.replies("Basket.total_price\n", fenced("shop.py", ROUNDED))
    edit(run, "shop.py", "the price shall be in whole cents")
    question, prompt = script.prompts
    assert "Which of these have to change?" in question
    assert f"Basket.total_price of shop.py:\n```python\n{TOTAL}```" in prompt
    assert repo.read("shop.py").decode() == SHOP.replace(TOTAL, ROUNDED)


@pytest.mark.soak
def test_an_interrupted_run_remembers_the_part(repo: GitRepo, run: Run, script: Script) -> None:
    repo.commit("shop", **{"shop.py": SHOP})
    # the model has no reply for the second call
    script.replies("Basket.total_price", fenced("shop.py", "        return 1\n"))
    edit(run, "shop.py", "whole cents", code=4)
    script.replies(fenced("shop.py", ROUNDED))
    edit(run, "shop.py", "whole cents")
    assert "Which of these" not in script.prompts[0]
    assert repo.read("shop.py").decode() == SHOP.replace(TOTAL, ROUNDED)


def test_several_files_are_requested_one_at_a_time(repo: GitRepo, run: Run, script: Script) -> None:
    repo.commit("two", **{"a.py": "A = 1\n", "b.py": "B = 1\n"})
    script.replies(fenced("a.py", "A = 2\n"), fenced("b.py", "B = 2\n"))
    tape = script.folder / "tape"
    edit(run, "a.py", "b.py", "make it 2", "--record", str(tape))
    first, second = script.prompts
    keys = [json.loads(line)["key"] for line in tape.read_text().splitlines()]
    assert len(set(keys)) == 2
    assert "A = 1" in first and "B = 1" not in first
    assert "B = 1" in second and "A = 1" not in second
    assert (repo.read("a.py"), repo.read("b.py")) == (b"A = 2\n", b"B = 2\n")
    assert repo.git("show", "--format=", "--name-only").split() == ["a.py", "b.py"]


def test_the_file_that_fails_the_check_is_requested_again(repo: GitRepo, run: Run, script: Script) -> None:
    repo.commit("two", **{"a.py": "A = 1\n", "b.py": "B = 1\n"})
    head = repo.head()
    script.replies(fenced("a.py", "A = 2\n"), fenced("b.py", "B = 3\n"), fenced("b.py", "B = 2\n"))
    check = "grep -q 2 a.py && { grep -q 2 b.py || { echo 'b.py: it is no 2'; exit 1; }; }"
    edit(run, "a.py", "b.py", "make it 2", "--check", check)
    last = script.prompts[2]
    assert "B = 3" in last and "B = 1" not in last and "A = " not in last
    assert "b.py: it is no 2" in last
    assert repo.git("diff", head, "HEAD", "--stat", "--format=").count("| 2 +-") == 2


@pytest.mark.soak
def test_the_form_depends_on_the_model(repo: GitRepo, run: Run, script: Script) -> None:
    env = {"REPOAGENT_MODEL": "ollama/qwen2.5-coder:1.5b"}
    show = ("edit", "src/app.py", "say hi", "--show-prompt", "--json")
    small, large = run(*show, env=env).out, run(*show, env={"REPOAGENT_MODEL": "best"}).out
    configured = run(*show, env=env | {"REPOAGENT_EDIT__FORMAT": "diff"}).out
    assert "the whole new file" in small
    assert ["```diff" in text for text in (small, large, configured)] == [False, True, True]


def test_a_repeated_answer_changes_the_wording_of_the_prompt(repo: GitRepo, run: Run, script: Script) -> None:
    old = repo.read("src/app.py").decode()
    wrong, right = old.replace("hello ", "hey "), old.replace("hello ", "hi ")
    script.replies(*[fenced("src/app.py", text) for text in (wrong, wrong, right)])
    edit(run, "src/app.py", "say hi", "--check", "grep -q 'hi ' src/app.py")
    first, second, third = script.prompts
    assert "hey " in second and "hello " not in second
    assert "hello " in third and "hey " not in third
    assert first.partition("\n")[0] == third.partition("\n")[0]
    assert "with this change, in a code block." in third and "info string" not in third


def test_the_noise_of_test_runners_is_removed() -> None:
    tap = "TAP version 13\n# Subtest: x\nnot ok 1 - x\n  ---\n  duration_ms: 6.2\n  error: |-\n    + 100\n    - 50\n  code: 'ERR'\n  ...\n"
    assert first_lines(tap) == "    + 100\n    - 50"
    python = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    g()\n    ^^^\nValueError: no\n\nRan 1 test in 0.1s\n'
    assert first_lines(python) == "    g()\nValueError: no"
    compiler = "error: cannot find value `x`\n --> src/main.rs:3:1\nname: a thing\n3: syntax error\n"
    assert first_lines(compiler) == compiler.rstrip()
    assert len(first_lines("word\n" * 500)) < 200


DATA = SHOP.encode()
NOTES = b"# Notes\n\nIntro.\n\n## Install it\n\nRun make.\n\n## Use it\n\nRun it.\n" + b"\nMore.\n" * 100
KEYS = b"a:\n  b: 1\nbuild_args:\n  c: 2\n"
PLAIN = b"one\ntwo\n\nthree\nfour\n\nfive\n"
HUGE = f"class Huge:\n{''.join(f'    def part_{n}(self):{chr(10)}        return {n}{chr(10) * 2}' for n in range(80))}"


@pytest.mark.parametrize(
    ("instruction", "places", "labels", "path", "data"),
    [
        # unclear: plain words, too many parts, not verbatim, too long
        ("make it faster", [], [], "shop.py", DATA),
        ("add a limit to the result", [], [], "shop.py", DATA),
        ("change task_1, task_5, task_9, task_13, task_17 and task_21", [], [], "shop.py", DATA),
        ("rename Task_1", [], [], "shop.py", DATA),
        ("x", [(1, 240)], [], "shop.py", DATA),
        # names and quotations
        ("total_price shall round", [], ["Basket.total_price 21-25"], "shop.py", DATA),
        ("in Basket.put_item refuse a negative price", [], ["Basket.put_item 16-19"], "shop.py", DATA),
        ("Basket needs a discount", [], ["Basket 9-25"], "shop.py", DATA),
        ("Basket.total_price uses put_item", [], ["Basket.put_item, Basket.total_price 16-25"], "shop.py", DATA),
        ('"text.splitlines()" keeps blank lines', [], ["read_names 238-240"], "shop.py", DATA),
        ("task_3() and task_20() return None", [], ["task_3 49-53", "task_20 168-172"], "shop.py", DATA),
        ("task_3 and `task_4`", [], ["task_3, task_4 49-60"], "shop.py", DATA),
        # lines of the user come first, and are extended to their definition
        ("x", [(22, 23)], ["Basket.total_price 21-25"], "shop.py", DATA),
        ("x", [(30, 36)], ["task_0, task_1 28-39"], "shop.py", DATA),
        ("total_price", [(3, 3)], [" 3-4"], "shop.py", DATA),
        # headings, keys, blank lines; a long class without most of its members
        ("say pip under Install it", [], ["Notes.Install it 5-7"], "n.md", NOTES),
        ("set build_args.c to 3", [], ["build_args 3-4"], "k.yaml", KEYS),
        ("x", [(5, 5)], [" 4-5"], "t.txt", PLAIN),
        ("Huge needs a new method", [], ["Huge.part_0 1-3"], "h.py", HUGE.encode()),
    ],
)  # fmt: skip
def test_the_parts_that_a_request_is_about(
    instruction: str, places: list[tuple[int, int]], labels: list[str], path: str, data: bytes
) -> None:
    windows = find_windows(path, data, instruction, places, 150)
    assert [f"{', '.join(w.names)} {w.first}-{w.last}" for w in windows] == labels


def test_a_window_moves_with_changes_around_it() -> None:
    before = list("abcdef")
    for after, rows in {
        "abcdef": (2, 4), "Xabcdef": (3, 5), "abcXdef": (2, 5), "abcdXYf": (2, 4), "abdef": (2, 3), "f": (0, 0)
    }.items():  # fmt: skip
        assert rows_now(FilePart("x", 3, 4), before, list(after)) == rows
        sources = [Source("x", Content("\n".join(text).encode()), "") for text in (before, after)]
        moved = window_now(FilePart("x", 3, 4), *sources)
        assert (moved.first, moved.last) == (rows[0] + 1, max(rows[1], rows[0] + 1))


def test_an_example_to_follow_is_not_selected_even_if_named_first() -> None:
    text = b"services:\n  postgres:\n    image: pg\n    healthcheck: x\n\n  redis:\n    image: redis\n\n  web:\n    image: web\n"
    source = Source("c.yml", Content(text), "")
    for request in ("Give redis a healthcheck like postgres", "Like postgres, redis needs a healthcheck"):
        (window,) = find_windows("c.yml", text, request, [], 100)
        assert window.names == ("services.redis",)
        assert "services.postgres of c.yml, only to read:\n" in file_excerpt(source, [window], request)
    assert "only to read" not in file_excerpt(source, [window], "as postgres does")
