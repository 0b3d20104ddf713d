"""`repoagent edit` from the command line: what is committed, what goes back to the model, what is printed; through the
real SDK to a local server, and from a recording."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.conftest import GitRepo
from tests.edit.conftest import GREET, HELLO, Run, Script, diff, files_of_head, greeting
from tests.llm.providers.messages_server import KEY, messages_server
from tests.llm.providers.messages_server import text as text_reply

README = diff("README.md", "-A small repository.", "+It greets.")
BOTH_FILES = GREET + "\n" + README


def state(repo: GitRepo) -> tuple[str, bytes, str, bool]:
    lock = (repo.top / ".git/index.lock").exists()
    return repo.head(), repo.read("src/app.py"), repo.status(), lock


def test_one_request_is_one_commit(repo: GitRepo, edit: Run, script: Script) -> None:
    words = "Greet with a comma\n\nIt reads better.\n"
    script.replies(f"I use an f-string.\n\n<commit>\n{words}</commit>\n\n{GREET}")
    before = repo.head()
    done = edit()
    assert repo.git("log", "--format=%P", "-1").strip() == before and files_of_head(repo) == ["src/app.py"]
    assert b"f'hello, {name}'" in repo.read("src/app.py")
    message = repo.git("log", "-1", "--format=%B")
    assert message.startswith(f"{words}\n") and "Assisted-by: repoagent:command:" in message
    assert f"Source-Blob: {repo.git('rev-parse', 'HEAD^:src/app.py').strip()}" in message
    assert repo.status() == "" and len(script.prompts) == 1
    assert done.out.startswith("[main ") and "Greet with a comma" in done.out and done.out.count("\n") == 1


def test_the_shown_prompt_is_sent_and_has_no_hash(repo: GitRepo, run: Run, edit: Run, script: Script) -> None:
    repo.write(".repoagent/context.md", "Strings use single quotes here.\n")
    repo.write("AGENTS.md", "Run the tests with make test.\n")
    shown = run("edit", "src/app.py", "greet with a comma", "--show-prompt", code=0)
    assert "total tokens" in shown.err and script.prompts == []
    script.replies(GREET)
    edit()
    (prompt,) = script.prompts
    sent = prompt.split("=====")  # the command adds the marks between system and user
    assert sent[0].strip() in shown.out and sent[2].strip() in shown.out
    assert "def greet(name):\n    return 'hello ' + name\n" in prompt
    assert repo.git("rev-parse", "HEAD^:src/app.py").strip() not in prompt
    assert not re.search(r'<[a-z][^>\n]* id="\w+">', prompt.partition("`rename to NEW`")[2])
    for text in ("first commit", "Strings use single quotes here.", "Run the tests with make test."):
        assert text in prompt
    order = ["branch ", "<history>", "def greet", "Last commit subjects:", "Rules of this run:", "Request:"]
    positions = [prompt.index(text) for text in order]
    assert positions == sorted(positions) and prompt.rindex("greet with a comma") > positions[-1]


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (greeting("'good bye ' + name", "name"), "return 'hello ' + name"),  # the nearest lines
        ("```src/app.py\ndef greet(name):\n    return f'hello, {name}'\n```\n", "removes main"),
        (greeting(HELLO, "('hello ' + name"), "no longer parse"),
    ],
)
def test_a_refused_answer_goes_back(repo: GitRepo, edit: Run, script: Script, reply: str, why: str) -> None:
    script.replies(reply, GREET)
    edit()
    assert len(script.prompts) == 2 and why in script.prompts[1].split("</file", 1)[1]
    assert b"def main" in repo.read("src/app.py")


def test_a_partly_refused_edit_is_sent_whole(repo: GitRepo, edit: Run, script: Script) -> None:
    wrong = README.replace("small", "large")
    script.replies(GREET + wrong, README, BOTH_FILES)
    script.act(1, "git status --porcelain > ../status")
    edit(more=["README.md"])
    assert (repo.top.parent / "status").read_text() == ""
    assert "No part of this edit is kept: send all of it again" in script.prompts[1]
    assert "your refused edit had 2 hunks, and this one has 1" in script.prompts[2]
    assert files_of_head(repo) == ["README.md", "src/app.py"]
    repo.git("reset", "-q", "--hard", "HEAD^")
    script.replies(GREET + wrong, README, README)  # the model has changed its mind
    edit(more=["README.md"])
    assert files_of_head(repo) == ["README.md"]


def test_a_diff_that_never_fits_is_refused(repo: GitRepo, edit: Run, script: Script) -> None:
    script.replies(*(greeting(str(n), "name") for n in range(6)))
    before = state(repo)
    (problem,) = edit("--json", code=3).json["error"]["problems"]
    assert (problem["path"], problem["hunk"], problem["reason"]) == ("src/app.py", 1, "deleted-line-missing")
    assert state(repo) == before and len(script.prompts) == 4  # the first answer and three more


def test_an_answer_or_a_rejection_exits_1_without_a_commit(repo: GitRepo, edit: Run, script: Script) -> None:
    before = state(repo)
    script.replies("It greets by name.\n")
    assert edit(request="what does greet do?", code=1).out == "It greets by name.\n"
    script.replies("<reject>It already does.</reject>\n")
    assert "It already does." in edit(request="greet by name", code=1).err
    script.replies(*["```src/app.py\n" + repo.read("src/app.py").decode() + "```\n"] * 4)
    edit(request="greet", code=1)
    assert state(repo) == before


@pytest.mark.parametrize("how", ["check", "hook"])
@pytest.mark.parametrize("second", [greeting("'hi ' + name", "f'hello, {name}'"), GREET])
def test_a_failed_check_goes_back(repo: GitRepo, edit: Run, script: Script, second: str, how: str) -> None:
    """The second answer is relative to the first, or the whole edit again."""
    if how == "hook":
        repo.hook("pre-commit", "git diff --cached | grep -q 'f.hello' || { echo no comma >&2; exit 1; }\n")
    script.replies(greeting(HELLO, "'hi ' + name"), second)
    edit(*(("--check", "grep -q 'hello,' src/app.py || { echo no comma; false; }") if how == "check" else ()))
    assert "no comma" in script.prompts[1] and b"f'hello, {name}'" in repo.read("src/app.py")
    assert repo.git("rev-list", "--count", "HEAD").strip() == "2"


def test_a_file_that_was_only_read_is_changed_too(repo: GitRepo, edit: Run, script: Script) -> None:
    script.replies('<read path="README.md"/>\n', BOTH_FILES)
    edit("--scope", "repo")
    assert files_of_head(repo) == ["README.md", "src/app.py"]


def test_new_deleted_and_renamed_files(repo: GitRepo, run: Run, edit: Run, script: Script) -> None:
    script.replies("```diff\n--- /dev/null\n+++ b/docs/new.md\n@@\n+# New\n```\n")
    edit("--create", file="docs/new.md", request="write it")
    assert repo.read("docs/new.md") == b"# New\n"
    script.replies("```diff\ndiff --git a/a.txt b/b.txt\nrename from a.txt\nrename to b.txt\n```\n")
    run("edit", "a.txt", "b.txt", "rename it", "--create", "--yes", code=0)
    assert not (repo.top / "a.txt").exists()
    assert repo.git("show", "-M", "--format=", "--name-status").split() == ["R100", "a.txt", "b.txt"]
    script.replies("```diff\n--- a/docs/new.md\n+++ /dev/null\n@@\n-# New\n```\n")
    edit(file="docs/new.md", request="delete it")
    assert not (repo.top / "docs").exists() and repo.status() == ""


def test_dry_run_and_no_commit(repo: GitRepo, run: Run, edit: Run, script: Script) -> None:
    script.replies(GREET)
    before = state(repo)
    done = run("edit", "src/app.py", "greet with a comma", "--dry-run", code=0)
    assert state(repo) == before
    repo.git("apply", "--check", "-", stdin=done.out.encode())
    assert "--yes" in run("edit", "src/app.py", "greet", code=2).err  # in a pipe there is no question
    script.replies(GREET)
    edit("--no-commit")
    assert repo.head() == before[0] and repo.status() == " M src/app.py\n"


@pytest.mark.parametrize("how", ["--yes", "--dry-run"])
def test_tolerances_are_reported(run: Run, script: Script, how: str) -> None:
    script.replies(GREET.replace("-    return", "-  return").replace("+    return", "+  return"))
    done = run("edit", "src/app.py", "greet with a comma", how, code=0)
    assert "inexact match: src/app.py:1 (lines matched ignoring white space" in done.err
    assert "inexact match" not in done.out


def test_the_instruction_from_a_file(run: Run, script: Script, tmp_path: Path) -> None:
    (tmp_path / "request").write_text("greet with a comma\n")
    for source, stdin in ((("-",), "greet with a comma\n"), (("-F", str(tmp_path / "request")), "")):
        script.replies(GREET)
        run("edit", "--dry-run", "src/app.py", *source, stdin=stdin, code=0)
        assert "Request:\ngreet with a comma\n" in script.prompts[0]
    script.replies(GREET)
    run("edit", "--yes", "src/app.py", "greet", code=0)
    script.replies(GREET)
    run("edit", "--yes", "--again", "-", stdin="greet with a comma\n", code=0)
    assert "Request:\ngreet with a comma\n" in script.prompts[0]


def test_json_of_an_edit_and_of_errors(repo: GitRepo, edit: Run, script: Script) -> None:
    script.replies("<commit>Greet with a comma</commit>\n" + GREET)
    value = edit("--json").json
    assert (value["version"], value["outcome"], value["commit"]) == (1, "committed", repo.head())
    assert value["placements"] == [
        {"path": "src/app.py", "hunk": 1, "line": 1, "level": "exact", "tolerances": ["numbers"]}
    ]
    assert "--- a/src/app.py" in str(value["diff"])
    assert "gone.py" in json.dumps(edit("--json", file="gone.py", code=2).json["error"])


def test_during_a_merge_only_no_commit_works(repo: GitRepo, edit: Run, script: Script) -> None:
    repo.git("checkout", "-q", "-b", "side")
    repo.commit("side", **{"README.md": "side\n"})
    repo.git("checkout", "-q", "main")
    repo.commit("main", **{"README.md": "main\n"})
    repo.git("merge", "side", ok=False)
    script.replies(GREET)
    assert "--no-commit" in edit(code=3).err and script.prompts == []
    edit("--no-commit")
    assert (repo.top / ".git/MERGE_HEAD").exists()


@pytest.mark.parametrize("ending", ["\r\n", "\n"])
def test_line_ends_are_preserved(repo: GitRepo, edit: Run, script: Script, ending: str) -> None:
    repo.git("config", "core.autocrlf", "false")
    text = ending.join(["def greet(name):", f"    return {HELLO}", "x = 1"])
    repo.commit("other endings", **{"src/app.py": text})
    script.replies(GREET)
    edit()
    assert repo.read("src/app.py") == text.replace(HELLO, "f'hello, {name}'").encode()


def test_a_whole_file_that_stops_early_is_sent_back(repo: GitRepo, edit: Run, script: Script) -> None:
    text = repo.read("a.txt").decode().replace("line 2\n", "LINE 2\n")
    cut = text[: text.index("line 8")]
    script.replies(f"I shout.\n\n```a.txt\n{cut}```\n", f"I shout.\n\n```a.txt\n{text}```\n")
    edit(file="a.txt", request="shout in the second line")
    assert "the last 3 lines of a.txt are missing" in script.prompts[1]
    assert repo.read("a.txt").decode() == text
    script.replies(f"I shout.\n\n```a.txt\n{cut}```\n")
    edit(file="a.txt", request="remove the last three lines")
    assert repo.read("a.txt").decode() == cut


def test_all_text_of_a_reply_is_printed(repo: GitRepo, edit: Run, script: Script) -> None:
    reply = f"<message>b.txt has to change too\nand c.txt</message>\nOnly a half.\n\n{GREET}"
    script.replies(reply)
    done = edit(request="greet")
    assert "b.txt has to change too\nand c.txt\n" in done.err and "Only a half.\n" in done.err
    repo.git("reset", "-q", "--hard", "HEAD^")
    script.replies(reply)
    value = edit("--json", request="greet once more").json
    assert (value["outcome"], value["answer"], value["words"]) == ("committed", "", "Only a half.")
    assert value["messages"] == ["b.txt has to change too\nand c.txt"]


@pytest.mark.parametrize("last", ["<finish>b.txt has to change</finish>", "b.txt has to change"])
def test_no_edit_after_a_failed_check_exits_6(repo: GitRepo, edit: Run, script: Script, last: str) -> None:
    before = repo.head(), repo.read("src/app.py")
    check = ("--check", "echo x >> .git/checked; false", "--check-unconfined")
    script.replies(GREET, last)
    done = edit(*check, code=6)
    assert (repo.head(), repo.read("src/app.py"), repo.status()) == (*before, "")
    assert "b.txt has to change\n" in done.err and "failed with exit code 1" in done.err
    assert repo.read(".git/checked") == b"x\n"  # once
    script.replies(GREET, last)
    error = edit(*check, "--json", request="greet it", code=6).json["error"]
    assert (error["exit"], error["words"]) == (6, "b.txt has to change")


def test_an_edit_repeated_after_a_failed_check_exits_6(repo: GitRepo, edit: Run, script: Script) -> None:
    script.replies(*[GREET] * 4)
    done = edit("--check", "echo broken; false", code=6)
    assert "broken" in done.err and "Nothing was changed (the model is stuck in a loop" in done.err
    assert repo.status() == ""


def test_finishing_after_a_refused_edit_is_not_a_success(repo: GitRepo, edit: Run, script: Script) -> None:
    script.replies(diff("src/app.py", "-no such line", "+x"), *["<finish>all done</finish>"] * 2)
    done = edit(code=3)
    assert "the model's edit was refused, and the model did not send another" in done.err
    assert "all done" in done.err
    assert "Your last edit was refused and is not part of the change." in script.prompts[2]


def test_a_reply_without_action_does_not_drop_an_edit(edit: Run, script: Script) -> None:
    script.replies(f'{GREET}\n<read path="README.md"/>', "That is all.", "<finish>done</finish>")
    edit()
    assert "Your edit applies but is not committed" in script.prompts[2]


@pytest.mark.parametrize("reply", ["<bash>ls</bash>", "```bash\nls\n```"])
def test_without_commands_tools_are_named(repo: GitRepo, edit: Run, script: Script, reply: str) -> None:
    script.replies(reply, "Then I can't say.")
    edit(request="what is here?", code=1)
    assert "Nothing in your last reply was performed" in script.prompts[1]
    assert "read, files, search, outline" in script.prompts[1] and "and patches" not in script.prompts[1]


MODEL = "anthropic/claude-haiku-5-5"


@pytest.mark.soak
def test_a_simple_edit_is_one_call(repo: GitRepo, edit: Run) -> None:
    repo.write("AGENTS.md", "Use single quotes.\n")
    usage = {"input_tokens": 900, "output_tokens": 50, "cache_read_input_tokens": 2000}
    with messages_server([text_reply("<commit>Greet</commit>\n" + GREET, usage=usage)]) as server:
        done = edit("--model", MODEL, env=server.environment)
    (request,) = server.requests
    assert request.body["stream"] is True
    blocks = [*request.body.get("system", ())]
    blocks += [block for message in request.body["messages"] for block in message["content"]]
    # those with a breakpoint of the cache, for which the protocol alone is too short
    context, file = (block["text"] for block in blocks if "cache_control" in block)
    assert "Use single quotes." in context
    assert "unified diff" in request.text.partition("Use single quotes.")[0]
    assert "return 'hello ' + name" in file and "greet with a comma" not in file
    assert request.text.rstrip().endswith("greet with a comma")
    assert "2,900 + 50 tokens (2,000 cached) · $0.0" in done.out
    assert done.out.count("\n") == 1 and done.err == ""
    assert f"Assisted-by: repoagent:{MODEL}" in repo.git("log", "-1", "--format=%B")
    assert KEY not in done.out + done.err
    written = [path for folder in (".repoagent", ".git/repoagent") for path in (repo.top / folder).rglob("*")]
    assert not any(KEY.encode() in path.read_bytes() for path in written if path.is_file())


@pytest.mark.soak
def test_record_and_replay_on_a_clone(repo: GitRepo, edit: Run, run: Run, script: Script) -> None:
    clone = GitRepo(repo.top.parent / "clone")
    repo.git("clone", "-q", ".", str(clone.top))
    tape = script.folder / "tape.jsonl"
    command = ("edit", "src/app.py", "greet with a comma", "--yes")
    script.replies('<read path="README.md"/>\n', "<commit>Greet\n\nBetter.</commit>\n" + GREET)
    assert run(*command, "--record", str(tape)).code == 0
    script.replies()
    done = run(*command, "--model", f"replay:{tape}", "--json", cwd=clone.top, code=0)
    assert script.prompts == []
    assert clone.git("rev-parse", "HEAD^{tree}") == repo.git("rev-parse", "HEAD^{tree}")
    for place in (repo, clone):
        message = place.git("log", "-1", "--format=%B").partition("Repoagent-Edit:")[0]
        assert message == "Greet\n\nBetter.\n\nAssisted-by: repoagent:command:sh\n"
    assert done.json["usage"]["calls"] == 2
    clone.git("reset", "-q", "--hard", "HEAD^")
    clone.write("src/app.py", clone.read("src/app.py") + b"# mine\n")
    for request in ("greet with a comma", "other words"):
        done = edit("--model", f"replay:{tape}", request=request, cwd=clone.top, code=4)
        assert "has no reply left for this request" in done.err
    assert json.loads(tape.read_text().splitlines()[0])["reply"].startswith("<read")
