"""`repoagent apply` in a repository."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.apply_patch import GREET, TWO, Ask, Here, apply, diff, made, program
from tests.cli.screens import Screen, python
from tests.conftest import GitRepo


@pytest.mark.soak
def test_a_whole_answer_becomes_one_commit_with_its_memory(repo: GitRepo, in_process: Ask) -> None:
    before = repo.head()
    answer = f"Sure!\n\n<commit>\nGreet with a comma\n\nIt reads better.\n</commit>\n\n```diff\n{GREET}```\n\nLet me know.\n"
    done = in_process("apply", "-y", stdin=answer.encode(), code=0)
    assert repo.git("log", "-1", "--format=%P").strip() == before
    assert repo.git("diff", "--name-only", "HEAD^").split() == ["src/app.py"]
    assert b"f'hello, {name}'" in repo.read("src/app.py")
    message = repo.git("log", "-1", "--format=%B")
    assert message.startswith("Apply a patch: change src/app.py\n\nRepoagent-Edit: ")
    assert f"Source-Blob: {repo.git('rev-parse', 'HEAD^:src/app.py').strip()}" in message
    assert "Assisted-by" not in message
    assert done.out.startswith("[main ") and "change src/app.py · 1 file +1 -1" in done.out
    assert repo.status() == ""
    (edits,) = repo.top.glob(".repoagent/memory/*/edits.jsonl")
    record = json.loads(edits.read_text())
    assert (record["commit"], record["model"], record["path"]) == (repo.head(), "", "src/app.py")
    assert record["request"].startswith("Apply a patch") and record["id"] in message


def test_a_kill_after_the_commit_loses_no_memory(repo: GitRepo) -> None:
    repo.hook("post-commit", "kill -9 $(ps -o ppid= -p $PPID)\n")
    assert apply(repo.top, GREET, "-y").code == -signal.SIGKILL
    repo.hook("post-commit", "true\n")
    made_it = repo.head()
    assert apply(repo.top, TWO, "-y").code == 0
    records = [json.loads(path.read_text()) for path in repo.top.glob(".repoagent/memory/*/edits.jsonl")]
    commits = {record["path"]: record["commit"] for record in records}
    assert commits == {"src/app.py": made_it, "a.txt": repo.head()}
    assert program(repo.top, "undo").code == program(repo.top, "undo").code == 0
    assert b"hello, " not in repo.read("src/app.py")


def test_errors_are_one_sentence_and_change_nothing(repo: GitRepo, here: Here, in_process: Ask) -> None:
    def state() -> tuple[object, ...]:
        files = [
            path for path in sorted(repo.top.rglob("*")) if ".git" not in path.relative_to(repo.top).parts
        ]
        content = [(path, path.stat().st_mode, path.is_file() and path.read_bytes()) for path in files]
        return content, repo.head(), repo.status()

    before = state()
    for patch, options, code, message in (
        ("", "", 2, "fix.patch is empty: it contains no patch"),
        ("Nothing to do here.\n", "-y", 3, "fix.patch contains no patch"),
        ("\0\1\2", "-y", 2, "fix.patch is binary"),
        ("```python\nx = 1\n```\n", "-y", 2, "name it with --path FILE"),
        (GREET, "", 2, "cannot ask for confirmation without a terminal"),
        (diff("nope.txt", "@@ -1 +1 @@", "-a", "+b"), "-y", 3, "nope.txt"),
        (diff("a.txt", "@@ -1 +1 @@", "-not there", "+b"), "-y", 3, "a.txt, hunk 1"),
        (made("../out.txt", "x"), "-y", 3, "'..'"),
        (made("/tmp/out-of-the-tree", "x"), "-y", 3, "absolute"),
        (made(".git/hooks/post-commit", "x"), "-y", 3, "belongs to git"),
        (made(".repoagent/context.md", "x"), "-y", 3, "belongs to git or repoagent"),
        (made("secrets/id_rsa", "x"), "-y", 3, "use --allow-sensitive"),
        (made(".gitattributes", "* filter=x"), "-y", 3, "use --allow-sensitive"),
        (made("a.txt/below", "x"), "-y", 3, "with this name already exists"),
        (GREET, "-y --source src/app.py=xyz", 2, "use PATH=BLOB"),
        (GREET, "-y --source a.txt=1234567", 3, "git does not have that blob"),
        (GREET, "-y --path a.txt", 2, "names its own files (src/app.py): omit --path"),
        (GREET, "-y -m ' '", 2, "message is empty"),
        (GREET, "-y --no-commit --branch x", 2, "cannot be combined"),
        (GREET, "-y --branch main", 3, "main"),
    ):
        done = here(patch, *shlex.split(options))
        assert (done.code, message in done.err, done.out) == (code, True, ""), done.err
        assert done.err.startswith("repoagent: ")
        assert state() == before
    for words, message in (
        ("missing.patch", "cannot read missing.patch: No such file"),
        ("src", "cannot read src: Is a directory"),
        ("-y -F -", "cannot both come from standard input"),
    ):
        assert message in in_process("apply", *words.split(), stdin=GREET.encode(), code=2).err
    patch = diff("a.txt", "@@ -1 +1 @@", "-not there", "+b") + diff("nope.txt", "@@ -1 +1 @@", "-a", "+b")
    error = here(patch, "-y", "--json").json["error"]
    assert (error["kind"], error["exit"]) == ("refused", 3)
    for problem in error["problems"]:
        assert problem.keys() == {"path", "hunk", "reason", "text"}
    assert {problem["reason"] for problem in error["problems"]} == {"unknown-file", "deleted-line-missing"}


def test_a_refusal_shows_the_nearest_lines(repo: GitRepo, here: Here) -> None:
    error = here(diff("a.txt", "@@ -4,2 +4,2 @@", " line 4", "-line five", "+five"), "-y", code=3).err
    assert "not in the file:\n  -line five\nThe nearest lines of the file are:\n     2  line 2\n" in error
    assert "\n     5  line 5\n" in error and "Send" not in error
    repo.commit(**{"b.txt": "x\ny\n" * 3})
    error = here(diff("b.txt", "@@ -9 +9 @@", "-y", "+z"), "-y", code=3).err
    assert "lines 2, 4, 6).\nAround line 2:\n     1  x\n     2  y\n" in error and "Send" not in error


def test_an_applied_patch_exits_with_1(repo: GitRepo, here: Here) -> None:
    patch = GREET + made("new.txt", "x")
    assert here(patch, "-y").code == 0
    done = here(patch, "-y")
    assert (done.code, "is already applied" in done.err) == (1, True)
    assert repo.git("rev-list", "--count", "HEAD").strip() == "2"


def test_tolerances_are_reported_and_strict_allows_none(repo: GitRepo, here: Here) -> None:
    slipped = GREET.replace("-    return", "-  return").replace("+    return", "+  return")
    strict = here(slipped, "-y", "--strict", "--json")
    assert strict.json["error"]["exit"] == strict.code == 3
    dry = here(slipped, "-n")
    assert dry.code == 0 and "+    return f'hello, {name}'" in dry.out
    assert "inexact match: src/app.py:1 (lines matched ignoring white space" in dry.err
    assert repo.status() == ""
    (place,) = here(slipped, "-y", "--json").json["placements"]
    how = {"level": "whitespace", "tolerances": ["whitespace"]}
    assert place == {"path": "src/app.py", "hunk": 1, "line": 1, **how}


def test_a_failing_check_or_hook_restores_files(repo: GitRepo, here: Here) -> None:
    before = repo.head()
    failed = here(GREET, "-y", "--check", "echo tested && false")
    assert failed.code == 6 and "tested" in failed.err and "Nothing was changed" in failed.err
    assert "your edit" not in failed.err  # without text for a model
    silent = here(GREET, "-y", "--check", "false")
    assert silent.err.strip().endswith("exit code 1. Nothing was changed.")
    repo.hook("pre-commit", "echo no way; exit 1\n")
    assert "no way" in here(GREET, "-y", code=6).err
    assert (repo.head(), repo.status()) == (before, "")
    passed = here(GREET, "-y", "--no-verify", "--check", "grep -q comma src/app.py || true", "--json")
    assert passed.json["check"]["command"].startswith("grep")


def test_commit_options(repo: GitRepo, here: Here, in_process: Ask, tmp_path: Path) -> None:
    done = here(GREET, "-ys", "--branch", "greeting", "-m", "Greet well", "-m", "With a comma.")
    assert done.out.startswith("[greeting ")
    message = repo.git("log", "-1", "--format=%B")
    assert message.startswith("Greet well\n\nWith a comma.\n\n") and "Signed-off-by: Ada Tester" in message
    (tmp_path / "words").write_text("From a file\n")
    assert here(TWO, "-y", "-F", str(tmp_path / "words")).code == 0
    assert repo.git("log", "-1", "--format=%s").strip() == "From a file"
    assert in_process("undo").code == 0
    assert here(TWO, "-y", "--no-commit").out.startswith("written")
    assert repo.status() == " M a.txt\n"
    repo.git("checkout", "-q", ".")
    assert here(TWO, "-y").code == 0
    assert repo.git("log", "-1", "--format=%s").strip() == "Apply fix.patch: change a.txt"


def test_the_word_after_a_signature_flag_is_the_patch(repo: GitRepo, in_process: Ask) -> None:
    repo.write("../fix.patch", TWO)
    repo.git("config", "gpg.program", "false")
    assert "sign" in in_process("apply", "-yS", "../fix.patch", code=6).err


def test_paths_are_relative_to_the_top_then_to_the_folder(repo: GitRepo, here: Here) -> None:
    for folder in ("one", "two"):
        repo.write(f"{folder}/x.txt", "1\n2\n3\n")
    repo.write("two/a.txt", "line 1\nline 2\nline 3\n")
    repo.commit("more")
    there = diff("x.txt", "@@ -1,3 +1,3 @@", " 1", "-2", "+zwei", " 3")
    assert here(there, "-y").code == 3  # two files have this name, so it is ambiguous
    here(there + made("y.txt", "new"), "-y", cwd=repo.top / "two", code=0)
    assert repo.git("diff", "--name-only", "HEAD^").split() == ["two/x.txt", "two/y.txt"]
    assert here(TWO, "-y", cwd=repo.top / "two").code == 0
    assert repo.git("diff", "--name-only", "HEAD^").split() == ["a.txt"]
    assert here(made("z.txt", "new"), "-y", cwd=repo.top / "two").code == 0
    assert repo.git("diff", "--name-only", "HEAD^").split() == ["z.txt"]
    unnamed = "".join(GREET.splitlines(keepends=True)[2:])
    assert here(unnamed, "-y", "--path", "app.py", cwd=repo.top / "src").code == 0
    assert b"f'hello, {name}'" in repo.read("src/app.py")


def test_no_model_is_loaded_and_no_file_but_those_named(repo: GitRepo) -> None:
    repo.commit("one more", unreadable="x")
    (repo.top / "unreadable").unlink()
    (repo.top / "unreadable").mkdir()  # reading it would fail
    code = (
        "import sys; sys.argv[1:] = ['apply', '-n']\nfrom repoagent.cli import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    print(end.code, file=sys.stderr)\n"
        "print(*(n for n in sys.modules if n.startswith(('repoagent.llm', 'repoagent.agent', 'anthropic', 'ssl', 'http'))))"
    )
    done = subprocess.run(python(code), cwd=repo.top, input=GREET.encode(), capture_output=True, check=False)
    assert done.stdout.decode().splitlines()[-1] == ""
    assert b"+    return f'hello, {name}'" in done.stdout


def test_a_piped_patch_is_asked_about_on_the_terminal(repo: GitRepo) -> None:
    def piped(patch: str, options: str, *, width: int) -> Screen:
        repo.write("../fix.patch", patch)
        command = ["/bin/sh", "-c", f"cat ../fix.patch | {sys.executable} -m repoagent apply {options}"]
        return Screen(command, repo.top, env={"NO_COLOR": "1", "TERM": "xterm"}, width=width)

    slipped = GREET.replace("-    return", "-  return")
    with piped(slipped, "-m 'Greet well'", width=60) as window:
        shown = window.answer("Apply this change [y,n,e,p,q,?]? ", "n\n")
        assert "diff --git a/src/app.py b/src/app.py" in shown
        assert "    Greet well\n" in shown and "Repoagent-Edit" not in shown
        assert "inexact match: src/app.py:1 (lines matched ignoring white\nspace" in shown
        window.expect("cancelled: nothing was changed")
        assert window.end() == 1
    assert repo.status() == ""
    with piped(GREET + TWO, "-p", width=100) as window:
        window.answer("(1/2) Apply this hunk [", "n\n")
        window.answer("(2/2) Apply this hunk [", "y\n")
        window.expect("[main ")
        assert window.end() == 0
        assert "\x1b[3" not in window.seen
    assert repo.git("diff", "--name-only", "HEAD^").split() == ["a.txt"]
    assert repo.git("log", "-1", "--format=%s").strip() == "Apply a patch: change a.txt"
