"""`repoagent outline --summary` as a user runs it."""

from __future__ import annotations

import json
import re
import signal
import time
from pathlib import Path

import pytest

from tests.cli.apply_patch import Ask, Done
from tests.conftest import GitRepo
from tests.edit.conftest import Open, Script
from tests.memory.summaries.conftest import changed, large
from tests.program import start

COMMAND = "outline --summary"


# A model that answers with a word about its prompt, unless SPOIL is set. Each prompt is saved in a file.
MODEL = """\
folder=${0%/*}
set -- "$folder"/prompt-*
count=$#
test -e "$1" || count=0
prompt=$(printf '%s/prompt-%03d-%d' "$folder" $count $$)
cat > "$prompt"
SPOIL
name=$(sed -n '/^def /{s/^def \\([a-z_0-9]*\\).*/\\1/p;q}' "$prompt")
echo "It defines ${name:-nothing of its own}. See call $count."
"""


class Program(Script):
    def answers(self, spoil: str = "") -> None:
        (self.folder / "model.sh").write_text(MODEL.replace("SPOIL", spoil))


@pytest.fixture
def model(script: Script) -> Program:
    result = Program(script.folder)
    result.answers()
    return result


def asked(done: Done) -> tuple[int, int]:
    """The number of summarized parts, and of calls."""
    assert done.code == 0, done.err
    paid = done.json["spent"]
    parts = sum(part["new"] for file in done.json["files"] for part in file["parts"])
    return parts, paid["calls"] if paid else 0


# --- bad input


UNUSABLE = {
    "gone.py": (None, 2, "no such file: gone.py"),
    "src": (None, 2, "src is a folder; name files in it"),
    ".": (None, 2, ". is a folder; name files in it"),
    "../other.py": (None, 2, "is outside the work tree"),
    ".git/config": (None, 3, "git"),
    "b.bin": (b"\0\1\2" * 9, 3, "b.bin is binary; only text can be summarized"),
    "p.txt": (b"version https://git-lfs.github.com/spec/v1\n", 3, "p.txt is a Git LFS pointer"),
    "hidden.py": (b"x = 1\n", 3, "hidden.py is listed in .repoagentignore"),
    "empty.py": (b"", 1, "empty.py is empty"),
    "blank.py": (b"\n \n", 1, "blank.py is empty"),
}


def test_files_that_cannot_be_summarized(repo: GitRepo, ask: Ask, model: Program) -> None:
    repo.write(".repoagentignore", "hidden.py\n")
    for name, (data, code, message) in UNUSABLE.items():
        if data is not None:
            repo.write(name, data)
        done = ask(*(["a.txt"] if code > 1 else []), name, "--model", model.spec)
        assert (done.code, done.out) == (code, "") and message in done.err
    (repo.top / "link.py").symlink_to("/etc/passwd")
    (repo.top / "folder").symlink_to("/etc")
    assert ask("link.py", "--model", model.spec).code == 3
    assert ask("folder/passwd", "--model", model.spec).code in (2, 3)
    assert model.prompts == [] and not (repo.top / ".repoagent").exists()


def test_a_secret_file_must_be_the_only_one(repo: GitRepo, ask: Ask, model: Program) -> None:
    repo.write("secrets.json", '{"key": 1}\n')
    done = ask("a.txt", "secrets.json", "--model", model.spec)
    assert done.code == 3 and "to summarize it, name only this file" in done.err and model.prompts == []
    assert ask("secrets.json", "--model", model.spec).code == 0


def test_no_model_and_wrong_usage(ask: Ask) -> None:
    done = ask("a.txt")
    assert done.code == 4 and "no model is configured" in done.err
    assert ask("a.txt", "--json").json["error"]["kind"] == "no_model"
    assert ask("a.txt", "--words", "3").code == ask().code == 2


# --- what it costs


def test_a_small_file_takes_one_call(repo: GitRepo, ask: Ask, model: Program) -> None:
    done = ask("src/app.py", "--model", model.spec)
    assert (done.code, done.out) == (0, "It defines greet. See call 0.\n")
    assert ask("src/app.py").out == done.out  # cached, so no model is needed
    assert ask("app.py", cwd=repo.top / "src").out == done.out
    assert len(model.prompts) == 1 and repo.status() == ""
    assert "in about 150 words" in model.prompts[0] and "in about 40 words" not in model.prompts[0]
    assert asked(ask("src/app.py", "--words", "40", "--model", model.spec, "--json")) == (1, 1)
    assert "in about 40 words" in model.prompts[1]
    repo.git("config", "repoagent.model", "command:false")
    repo.git("config", "repoagent.summary.model", model.spec)
    assert ask("README.md").code == 0  # with the model for summaries
    assert ask("a.txt", "--model", "command:false").code == 4


def test_many_calls_need_confirmation_and_an_edit_pays_one_segment_and_the_join(
    repo: GitRepo, ask: Ask, model: Program, screen: Open
) -> None:
    repo.write("large.py", large() * 2)
    done = ask("large.py", "--model", model.spec)
    assert done.code == 2 and done.out == "" and model.prompts == []
    assert re.search(r"would summarize (\d+) of \1 segments in \d+ calls: about [\d,]+ tokens in", done.err)
    done = ask("large.py", "--model", model.spec, "--yes", "--json")
    parts, calls = asked(done)
    assert calls == parts + 1 == len(model.prompts)
    (file,) = done.json["files"]
    assert file["parts"][0]["start"] == 0 and file["parts"][-1]["end"] == file["size"] == len(large() * 2)
    assert file["summary"].startswith("It defines nothing of its own.")
    repo.write("large.py", changed(24) + large())
    with screen("outline", "--summary", "large.py", width=100) as window:
        window.expect("It defines")
        assert window.end() == 0
    seen = " ".join(re.sub(r"\x1b\[[0-9;]*m", "", window.seen).split())
    assert f"large.py: 1 of {parts} segments new, {parts - 1} cached; to correct it, edit " in seen
    assert len(model.prompts) == parts + 1 + 2


# --- what ends it early


def test_a_model_that_fails_midway(repo: GitRepo, ask: Ask, model: Program) -> None:
    repo.write("large.py", large())
    model.answers("if [ $count = 3 ]; then echo out of order >&2; exit 1; fi")
    done = ask("src/app.py", "large.py", "--model", model.spec, "--yes")
    assert done.code == 4 and "out of order" in done.err
    assert done.out == "It defines greet. See call 0.\n"  # that file is done
    model.answers()
    parts, calls = asked(ask("src/app.py", "large.py", "--model", model.spec, "--yes", "--json"))
    assert calls == parts + 1 and len(model.prompts) == 4 + calls


@pytest.mark.soak
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_summary_is_continued(repo: GitRepo, ask: Ask, model: Program, number: int) -> None:
    repo.write("large.py", large())
    model.answers("if [ $count = 2 ]; then exec sleep 60; fi")
    running = start(["outline", "--summary", "large.py", "--yes", "--model", model.spec], repo.top)
    deadline = time.monotonic() + 20
    while len(model.prompts) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    running.send_signal(number)
    running.communicate()
    assert running.returncode == (130 if number == signal.SIGINT else -signal.SIGKILL)
    model.answers()
    done = ask("large.py", "--model", model.spec, "--json")
    parts, calls = asked(done)
    assert parts == len(done.json["files"][0]["parts"]) - 2 and calls == parts + 1
    assert done.err == "" and repo.status() == "?? large.py\n"


# --- how it is shown


def test_standard_input_and_no_repository(ask: Ask, model: Program, tmp_path: Path) -> None:
    done = ask("-", "--model", model.spec, "--json", stdin=b"def piped():\n    pass\n")
    assert done.json["files"][0]["path"] is None and "It defines piped." in done.out
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "x.py").write_bytes(b"def outside():\n    pass\n")
    done = ask("x.py", "--model", model.spec, cwd=elsewhere)
    assert (done.code, done.out.split(".")[0]) == (0, "It defines outside")
    assert ask("y.py", "--model", model.spec, cwd=elsewhere).code == 2
    assert sorted(path.name for path in elsewhere.iterdir()) == ["x.py"]


@pytest.mark.soak
def test_two_processes_lose_nothing_and_agree(repo: GitRepo, ask: Ask, model: Program) -> None:
    repo.write("large.py", large())
    model.answers("sleep 0.1")
    command = ["outline", "--summary", "large.py", "--yes", "--json", "--model", model.spec]
    both = [start(command, repo.top) for _ in range(2)]
    output = [json.loads(running.communicate()[0]) for running in both]
    assert [running.returncode for running in both] == [0, 0]
    model.answers("exit 1")
    now = ask("large.py", "--json").json["files"][0]
    for one in output:
        assert [part["summary"] for part in one["files"][0]["parts"]] == [p["summary"] for p in now["parts"]]
        assert one["files"][0]["summary"] == now["summary"]
    assert not list((repo.top / ".repoagent").rglob(".tmp-*"))
