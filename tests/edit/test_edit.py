"""`repoagent edit` as a user runs it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.conftest import GitRepo
from tests.edit.conftest import GREET, Run, Script, diff


def test_one_request_is_one_commit(repo: GitRepo, run: Run, script: Script) -> None:
    script.replies(
        "I use an f-string.\n\n<commit>\nGreet with a comma\n\nIt reads better.\n</commit>\n\n" + GREET
    )
    before = repo.head()
    done = run("edit", "src/app.py", "greet with a comma", "--yes")
    assert done.code == 0, done.err
    assert repo.git("log", "--format=%P", "-1").strip() == before
    assert repo.git("diff", "--name-only", "HEAD^", "HEAD").split() == ["src/app.py"]
    assert b"f'hello, {name}'" in repo.read("src/app.py")
    message = repo.git("log", "-1", "--format=%B")
    assert message.startswith("Greet with a comma\n\nIt reads better.\n\n")
    assert "Assisted-by: repoagent:command:" in message
    source = repo.git("rev-parse", "HEAD^:src/app.py").strip()
    assert f"Source-Blob: {source}" in message
    assert repo.status() == ""
    assert len(script.prompts) == 1
    assert done.out.startswith("[main ") and "Greet with a comma" in done.out and done.out.count("\n") == 1


def test_the_prompt_has_the_file_history_and_the_request_and_no_hash(
    repo: GitRepo, run: Run, script: Script
) -> None:
    repo.write(".repoagent/context.md", "Strings use single quotes here.\n")
    repo.write("AGENTS.md", "Run the tests with make test.\n")
    script.replies(GREET)
    assert run("edit", "src/app.py", "greet with a comma", "--yes").code == 0
    (prompt,) = script.prompts
    assert "def greet(name):\n    return 'hello ' + name\n" in prompt
    assert repo.git("rev-parse", "HEAD^:src/app.py").strip() not in prompt
    assert not re.search(r'<[a-z][^>\n]* id="\w+">', prompt.partition("`rename to NEW`")[2])
    assert "first commit" in prompt
    assert "Strings use single quotes here." in prompt
    assert "Run the tests with make test." in prompt
    order = ["branch ", "<history>", "def greet", "Last commit subjects:", "Rules of this run:", "Request:"]
    places = [prompt.index(text) for text in order]
    assert places == sorted(places) and prompt.rindex("greet with a comma") > places[-1]


def test_show_prompt_prints_what_is_sent_and_sends_nothing(repo: GitRepo, run: Run, script: Script) -> None:
    shown = run("edit", "src/app.py", "greet with a comma", "--show-prompt")
    assert shown.code == 0
    assert "total tokens" in shown.err
    script.replies(GREET)
    run("edit", "src/app.py", "greet with a comma", "--yes")
    sent = script.prompts[0].split("=====")  # the marks between system and user are the command's own
    assert sent[0].strip() in shown.out
    assert sent[2].strip() in shown.out


def test_other_work_stays_staged_and_unstaged(repo: GitRepo, run: Run, script: Script) -> None:
    repo.write("a.txt", b"staged\n")
    repo.git("add", "a.txt")
    repo.write("a.txt", b"staged\nand unstaged\n")
    repo.write("src/app.py", repo.read("src/app.py") + b"\n# my own line\n")
    repo.write("new.txt", b"untracked\n")
    before = repo.status()
    script.replies(GREET)
    assert run("edit", "src/app.py", "greet with a comma", "--yes").code == 0
    assert repo.status() == before
    assert repo.git("diff", "--cached", "--name-only").split() == ["a.txt"]
    assert "my own line" not in repo.git("show", "HEAD:src/app.py")
    assert repo.read("src/app.py").endswith(b"\n# my own line\n")
    assert repo.git("show", "--stat", "--format=").count("|") == 1


def test_a_refused_diff_goes_back_with_the_nearest_lines(repo: GitRepo, run: Run, script: Script) -> None:
    wrong = diff("src/app.py", " def greet(name):", "-    return 'good bye ' + name", "+    return name")
    script.replies(wrong, GREET)
    assert run("edit", "src/app.py", "greet with a comma", "--yes").code == 0
    assert len(script.prompts) == 2
    assert "return 'hello ' + name" in script.prompts[1].split("</file", 1)[1]


def test_a_diff_that_never_fits_is_refused_and_nothing_is_touched(
    repo: GitRepo, run: Run, script: Script
) -> None:
    wrong = [
        diff("src/app.py", " def greet(name):", f"-    return {n}", "+    return name") for n in range(6)
    ]
    script.replies(*wrong)
    head, data = repo.head(), repo.read("src/app.py")
    done = run("edit", "src/app.py", "greet with a comma", "--yes")
    assert done.code == 3
    assert (repo.head(), repo.read("src/app.py"), repo.status()) == (head, data, "")
    assert len(script.prompts) == 4  # the first answer and three more
    assert not (repo.top / ".git/index.lock").exists()


def test_a_question_gets_an_answer_and_no_commit(repo: GitRepo, run: Run, script: Script) -> None:
    script.replies("It greets by name.\n")
    head = repo.head()
    done = run("edit", "src/app.py", "what does greet do?", "--yes")
    assert (done.code, done.out) == (1, "It greets by name.\n")
    assert repo.head() == head


def test_a_rejection_is_exit_1(repo: GitRepo, run: Run, script: Script) -> None:
    script.replies("<reject>It already does.</reject>\n")
    done = run("edit", "src/app.py", "greet by name", "--yes")
    assert done.code == 1
    assert "It already does." in done.err


def test_a_failing_check_goes_back_until_it_passes(repo: GitRepo, run: Run, script: Script) -> None:
    first = diff("src/app.py", " def greet(name):", "-    return 'hello ' + name", "+    return 'hi ' + name")
    second = diff(
        "src/app.py", " def greet(name):", "-    return 'hi ' + name", "+    return 'hello, ' + name"
    )
    script.replies(first, second)
    done = run(
        "edit",
        "src/app.py",
        "greet with a comma",
        "--yes",
        "--check",
        "grep -q 'hello,' src/app.py || { echo no comma; false; }",
    )
    assert done.code == 0, done.err
    assert "no comma" in script.prompts[1]
    assert repo.git("rev-list", "--count", "HEAD").strip() == "2"
    assert b"'hello, ' + name" in repo.read("src/app.py")


def test_after_a_setback_the_whole_edit_may_come_anew(repo: GitRepo, run: Run, script: Script) -> None:
    first = diff("src/app.py", " def greet(name):", "-    return 'hello ' + name", "+    return 'hi ' + name")
    script.replies(first, GREET)
    done = run("edit", "src/app.py", "greet with a comma", "--yes", "--check", "grep -q 'hello,' src/app.py")
    assert done.code == 0, done.err
    assert b"f'hello, {name}'" in repo.read("src/app.py")


def test_a_check_that_never_passes_leaves_everything_as_it_was(
    repo: GitRepo, run: Run, script: Script
) -> None:
    replies = [
        diff("src/app.py", " def greet(name):", f"-    return {old}", f"+    return {new}")
        for old, new in [("'hello ' + name", "1"), ("1", "2"), ("2", "3")]
    ]
    script.replies(*replies)
    head, data = repo.head(), repo.read("src/app.py")
    done = run("edit", "src/app.py", "greet", "--yes", "--check", "false", "--max-turns", "3")
    assert done.code == 6
    assert (repo.head(), repo.read("src/app.py"), repo.status()) == (head, data, "")


def test_a_failing_hook_goes_back_to_the_model(repo: GitRepo, run: Run, script: Script) -> None:
    repo.hook(
        "pre-commit", "git diff --cached | grep -q 'f.hello' || { echo 'use an f-string' >&2; exit 1; }\n"
    )
    first = diff(
        "src/app.py", " def greet(name):", "-    return 'hello ' + name", "+    return 'hello, ' + name"
    )
    second = diff(
        "src/app.py", " def greet(name):", "-    return 'hello, ' + name", "+    return f'hello, {name}'"
    )
    script.replies(first, second)
    assert run("edit", "src/app.py", "greet with a comma", "--yes").code == 0
    assert "use an f-string" in script.prompts[1]
    assert repo.git("rev-list", "--count", "HEAD").strip() == "2"


def test_several_files_are_one_commit(repo: GitRepo, run: Run, script: Script) -> None:
    script.replies(
        GREET + "\n" + diff("README.md", "-A small repository.", "+A small repository that greets.")
    )
    assert run("edit", "src/app.py", "README.md", "greet with a comma", "--yes").code == 0
    assert repo.git("diff", "--name-only", "HEAD^").split() == ["README.md", "src/app.py"]


def test_scope_repo_reaches_a_file_that_was_read(repo: GitRepo, run: Run, script: Script) -> None:
    script.replies(
        '<read path="README.md"/>\n', GREET + diff("README.md", "-A small repository.", "+It greets.")
    )
    assert run("edit", "src/app.py", "greet with a comma", "--yes", "--scope", "repo").code == 0
    assert repo.git("diff", "--name-only", "HEAD^").split() == ["README.md", "src/app.py"]


def test_new_deleted_and_renamed_files(repo: GitRepo, run: Run, script: Script) -> None:
    script.replies("```diff\n--- /dev/null\n+++ b/docs/new.md\n@@\n+# New\n```\n")
    assert run("edit", "docs/new.md", "write it", "--create", "--yes").code == 0
    assert repo.read("docs/new.md") == b"# New\n"
    script.replies("```diff\ndiff --git a/a.txt b/b.txt\nrename from a.txt\nrename to b.txt\n```\n")
    done = run("edit", "a.txt", "b.txt", "rename it", "--create", "--yes")
    assert done.code == 0, done.err
    assert not (repo.top / "a.txt").exists()
    assert repo.git("show", "-M", "--format=", "--name-status").split() == ["R100", "a.txt", "b.txt"]
    lines = repo.read("docs/new.md").decode().splitlines()
    script.replies(
        "```diff\n--- a/docs/new.md\n+++ /dev/null\n@@\n" + "".join(f"-{line}\n" for line in lines) + "```\n"
    )
    done = run("edit", "docs/new.md", "delete it", "--yes")
    assert done.code == 0, done.err
    assert not (repo.top / "docs").exists()
    assert repo.status() == ""


def test_a_missing_file_needs_create(run: Run) -> None:
    done = run("edit", "nowhere.py", "write it", "--yes")
    assert done.code == 2
    assert "--create" in done.err


def test_dry_run_prints_the_diff_and_writes_nothing(repo: GitRepo, run: Run, script: Script) -> None:
    script.replies(GREET)
    head, data = repo.head(), repo.read("src/app.py")
    done = run("edit", "src/app.py", "greet with a comma", "--dry-run")
    assert done.code == 0
    assert (repo.head(), repo.read("src/app.py")) == (head, data)
    repo.git("apply", "--check", "-", stdin=done.out.encode())


def test_no_commit_writes_and_leaves_the_index(repo: GitRepo, run: Run, script: Script) -> None:
    script.replies(GREET)
    head = repo.head()
    assert run("edit", "src/app.py", "greet with a comma", "--yes", "--no-commit").code == 0
    assert repo.head() == head
    assert repo.status() == " M src/app.py\n"


def test_a_pipe_is_not_asked_and_assumes_nothing(repo: GitRepo, run: Run, script: Script) -> None:
    script.replies(GREET)
    done = run("edit", "src/app.py", "greet with a comma")
    assert done.code == 2
    assert "--yes" in done.err
    assert script.prompts == []


def test_the_instruction_from_standard_input_and_from_a_file(
    repo: GitRepo, run: Run, script: Script, tmp_path: Path
) -> None:
    script.replies(GREET)
    assert run("edit", "--dry-run", "src/app.py", "-", stdin="greet with a comma\n").code == 0
    assert "Request:\ngreet with a comma\n" in script.prompts[0]
    (tmp_path / "request").write_text("greet otherwise\n")
    script.replies(GREET)
    assert run("edit", "--dry-run", "src/app.py", "-F", str(tmp_path / "request")).code == 0
    assert "Request:\ngreet otherwise\n" in script.prompts[0]
    assert run("edit", "--dry-run", "src/app.py", "-", stdin=" \n").code == 2


def test_places_are_told_to_the_model(repo: GitRepo, run: Run, script: Script) -> None:
    script.replies(GREET)
    assert run("edit", "--dry-run", "src/app.py::greet", "add a comma").code == 0
    assert "greet in src/app.py (lines 1-2)" in script.prompts[0]
    assert run("edit", "--dry-run", "src/app.py::nothing", "x").code == 2
    assert run("edit", "--dry-run", "src/app.py:99", "x").code == 2


def test_removing_what_the_request_does_not_name_is_sent_back(
    repo: GitRepo, run: Run, script: Script
) -> None:
    whole = "```src/app.py\ndef greet(name):\n    return f'hello, {name}'\n```\n"
    script.replies(whole, GREET)
    assert run("edit", "src/app.py", "greet with a comma", "--yes").code == 0
    assert "removes main" in script.prompts[1]
    assert b"def main" in repo.read("src/app.py")


def test_a_change_that_does_not_parse_is_sent_back(repo: GitRepo, run: Run, script: Script) -> None:
    broken = diff(
        "src/app.py", " def greet(name):", "-    return 'hello ' + name", "+    return ('hello ' + name"
    )
    script.replies(broken, GREET)
    assert run("edit", "src/app.py", "greet with a comma", "--yes").code == 0
    assert len(script.prompts) == 2


def test_no_change_needed_is_exit_1(repo: GitRepo, run: Run, script: Script) -> None:
    same = "```src/app.py\n" + repo.read("src/app.py").decode() + "```\n"
    script.replies(same, same, same, same)
    assert run("edit", "src/app.py", "greet", "--yes").code == 1


def test_json_says_it_all(repo: GitRepo, run: Run, script: Script) -> None:
    script.replies("<commit>Greet with a comma</commit>\n" + GREET)
    value = run("edit", "src/app.py", "greet with a comma", "--yes", "--json").json
    assert value["version"] == 1
    assert value["outcome"] == "committed"
    assert value["commit"] == repo.head()
    (place,) = value["placements"]
    assert {**place, "tolerances": None} == {
        "path": "src/app.py", "hunk": 1, "line": 1, "level": "exact", "tolerances": None,
    }  # fmt: skip
    assert place["tolerances"] == ["numbers"]
    assert "--- a/src/app.py" in str(value["diff"])
    failed = run("edit", "gone.py", "x", "--yes", "--json")
    assert failed.code == 2
    assert "gone.py" in json.dumps(failed.json["error"])


@pytest.mark.soak
def test_secret_and_ignored_files_need_a_name(repo: GitRepo, run: Run, script: Script) -> None:
    repo.write(".env", "TOKEN=1\n")
    repo.write("vendor/lib.py", "x = 1\n")
    repo.write(".repoagentignore", "vendor/\n")
    script.replies('<read path=".env"/>\n<read path="vendor/lib.py"/>\n', GREET)
    assert run("edit", "src/app.py", "greet with a comma", "--yes").code == 0
    assert "TOKEN=1" not in "".join(script.prompts)
    assert run("edit", "vendor/lib.py", "x", "--yes").code == 3


def test_in_the_middle_of_a_merge_only_no_commit_works(repo: GitRepo, run: Run, script: Script) -> None:
    repo.git("checkout", "-q", "-b", "side")
    repo.commit("side", **{"README.md": "side\n"})
    repo.git("checkout", "-q", "main")
    repo.commit("main", **{"README.md": "main\n"})
    repo.git("merge", "side", ok=False)
    script.replies(GREET)
    done = run("edit", "src/app.py", "greet with a comma", "--yes")
    assert done.code == 3
    assert "--no-commit" in done.err
    assert script.prompts == []
    assert run("edit", "src/app.py", "greet with a comma", "--yes", "--no-commit").code == 0
    assert (repo.top / ".git/MERGE_HEAD").exists()


@pytest.mark.parametrize("ending", ["\r\n", "\n"])
def test_line_endings_and_the_missing_final_newline_stay(
    repo: GitRepo, run: Run, script: Script, ending: str
) -> None:
    repo.git("config", "core.autocrlf", "false")
    text = ending.join(["def greet(name):", "    return 'hello ' + name", "x = 1"])
    repo.write("src/app.py", text)
    repo.commit("other endings")
    script.replies(GREET)
    assert run("edit", "src/app.py", "greet with a comma", "--yes").code == 0
    assert repo.read("src/app.py") == text.replace("'hello ' + name", "f'hello, {name}'").encode()


def test_max_tokens_is_checked_before_the_call(repo: GitRepo, run: Run, script: Script) -> None:
    script.replies(GREET)
    done = run("edit", "src/app.py", "greet", "--yes", "--max-tokens", "10")
    assert done.code == 5
    assert script.prompts == []
    unknown = run("edit", "src/app.py", "greet", "--yes", "--max-cost", "1")
    assert unknown.code == 2
    assert "price" in unknown.err


def test_a_whole_file_that_stops_early_is_sent_back(repo: GitRepo, run: Run, script: Script) -> None:
    text = repo.read("a.txt").decode().replace("line 2\n", "LINE 2\n")
    cut = text[: text.index("line 8")]
    script.replies(f"I shout.\n\n```a.txt\n{cut}```\n", f"I shout.\n\n```a.txt\n{text}```\n")
    assert run("edit", "a.txt", "shout in the second line", "--yes").code == 0
    assert "the last 3 lines of a.txt are missing" in script.prompts[1]
    assert repo.read("a.txt").decode() == text
    script.replies(f"I shout.\n\n```a.txt\n{cut}```\n")
    assert run("edit", "a.txt", "remove the last three lines", "--yes").code == 0
    assert repo.read("a.txt").decode() == cut
