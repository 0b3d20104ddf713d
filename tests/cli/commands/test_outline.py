"""`repoagent outline`, also with --summary."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from functools import partial
from pathlib import Path

import pytest

from tests.cli.apply_patch import Ask, Done
from tests.conftest import GitRepo
from tests.edit.conftest import Open, Script
from tests.memory.summaries.conftest import changed, large
from tests.program import start

SOURCE = (
    "class Server:\n    # how it runs\n    def run(self, host: str, port: int = 80) -> None:\n        def inner(): ...\n"
    "\n\ndef main():\n    pass\n"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder outside a repository."""
    (tmp_path / "app.py").write_text(SOURCE)
    (tmp_path / "bare.py").write_text("x = 1\n")
    (tmp_path / "empty").mkdir()
    (tmp_path / "bin").write_bytes(b"\0\1")
    (tmp_path / "a.unknown").write_text("x\n")
    return tmp_path


@pytest.fixture
def outline(folder: Path, in_process: Ask) -> Ask:
    """`repoagent outline ARGUMENTS` in this process, in `folder` or `cwd`."""
    return lambda *arguments, cwd=folder, **more: in_process("outline", *arguments, cwd=cwd, **more)


def test_wrong_calls_are_one_sentence(outline: Ask) -> None:
    for words, sentence in (
        ("nope.py", "no such file: nope.py"),
        ("empty", "empty contains no file"),
        ("bin", "repoagent: bin is binary\n"),
        ("a.unknown", "a.unknown is in an unknown language; use --language"),
        ("app.py::", "no name after the :: in app.py"),
        ("app.py::nope", "app.py has no symbol 'nope'; it has Server (1-4), main (7-8)"),
        ("bare.py::nope", "bare.py has no symbols"),
        ("empty::f", "empty is a folder; :: needs a file"),
        ("-", "standard input needs --language"),
        ("- --language pyton", "unknown language 'pyton'; choose one of ada, bash,"),
        ("app.py --depth 0", "'--depth': 0 is not in the range x>=1"),
        ("app.py --kind klass", "invalid value for '--kind': 'klass' is not one of 'function', 'method',"),
        ("", "missing argument 'FILE...'"),
        ("app.py --words 40", "--words needs --summary"),
        ("app.py -y", "--yes needs --summary"),
        ("app.py --summary --kind class", "--kind cannot be combined with --summary"),
    ):
        assert sentence in outline(*words.split(), code=2).error


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file(folder: Path, outline: Ask) -> None:
    (folder / "app.py").chmod(0)
    assert "cannot read app.py: Permission denied" in outline("app.py", code=2).err


def test_one_definition_its_contents_depth_kind_and_syntax_errors(folder: Path, outline: Ask) -> None:
    (folder / "odd::name.py").write_text("def odd(): ...\n")
    run = "2-4  def run(self, host: str, port: int = 80) -> None\n"
    for words, shown in (
        ("app.py --depth 1", "1-4  class Server\n7-8  def main()\n"),
        ("app.py --kind method", run),
        ("app.py::Server.run", f"{run}  4    def inner()\n"),
        ("app.py::Server.run --depth 1", run),
        ("odd::name.py", "1  def odd()\n"),
    ):
        assert outline(*words.split()).out == shown
    assert outline("app.py", "--kind", "enum") == Done(1, "", "nothing found\n")
    assert outline("a.unknown", "--language", "python").code == 1
    done = outline("-", "--language", "markdown", stdin=b"# A\n\n## B\n")
    assert (done.code, done.out) == (0, "1-3  # A\n  3    ## B\n")
    (folder / "broken.py").write_text("def a():\n    pass\n\ndef b(:\n    pass\n\ndef c(): ...\n")
    done = outline("broken.py")
    assert done.code == 0 and "def c()" in done.out
    assert done.err == "syntax errors in broken.py (1); definitions near them may be missing\n"


def test_a_folder_of_a_repository_is_what_git_tracks(repo: GitRepo, outline: Ask) -> None:
    repo.commit(
        **{"lib/a.py": SOURCE, "lib/b.md": "# B\n", "lib/logo.png": b"\x89PNG\0", "lib/c.unknown": "x"}
    )
    repo.write("lib/untracked.py", "def u(): ...\n")
    repo.write("lib/.gitignore", "")
    (repo.top / "lib" / "b.md").unlink()
    (repo.top / "lib" / "link.py").symlink_to("a.py")
    repo.git("add", "lib/link.py")
    done = outline("lib", "--depth", "1", cwd=repo.top)
    assert done.out == "lib/a.py\n1-4  class Server\n7-8  def main()\n"
    assert done.err == "skipped 2 files: 1 no grammar, 1 binary\n"
    assert outline(".", "--kind", "class", cwd=repo.top / "lib").out == "a.py\n1-4  class Server\n"


def test_folders_and_files_at_once(folder: Path, outline: Ask) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "b.sh").write_text("f() {\n  :\n}\n")
    (folder / "sub" / ".hidden.py").write_text("def h(): ...\n")
    assert outline("sub", "app.py", "bin", "sub/b.sh", "--depth", "1") == Done(
        0, "sub/b.sh\n1-3  f()\n\napp.py\n1-4  class Server\n7-8  def main()\n", "skipped 1 file: 1 binary\n"
    )


def test_json(outline: Ask) -> None:
    result = outline("app.py", "bin", "--json").json
    assert result["version"] == 1
    assert result["skipped"] == [{"path": "bin", "reason": "binary"}]
    (file,) = result["files"]
    counts = {"path": "app.py", "language": "python", "lines": 8, "errors": 0, "symbols": 4}
    assert {**file, "symbols": len(file["symbols"])} == counts
    lines = {"first_line": 2, "last_line": 4, "depth": 1}
    names = {"name": "run", "kind": "method", "qualified_name": "Server.run"}
    signature = "def run(self, host: str, port: int = 80) -> None"
    assert file["symbols"][1] == {**names, **lines, "signature": signature}
    assert "no such file" in outline("nope.py", "--json", code=2).json["error"]["message"]


# --summary

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


class Model(Script):
    def answers(self, spoil: str = "") -> None:
        (self.folder / "model.sh").write_text(MODEL.replace("SPOIL", spoil))


@pytest.fixture
def model(script: Script) -> Model:
    result = Model(script.folder)
    result.answers()
    return result


@pytest.fixture
def ask(in_process: Ask, repo: GitRepo) -> Ask:
    """`repoagent outline --summary ARGUMENTS` in this process, at the top or in `cwd`."""
    return partial(in_process, "outline", "--summary")


def asked(done: Done) -> tuple[int, int]:
    """The number of summarized parts, and of calls."""
    assert done.code == 0, done.err
    paid = done.json["spent"]
    parts = sum(part["new"] for file in done.json["files"] for part in file["parts"])
    return parts, paid["calls"] if paid else 0


def test_files_that_cannot_be_summarized(repo: GitRepo, ask: Ask, model: Model) -> None:
    repo.write(".repoagentignore", "hidden.py\n")
    for name, data, code, message in (
        ("gone.py", None, 2, "no such file: gone.py"),
        ("src", None, 2, "src is a folder; name files in it"),
        (".", None, 2, ". is a folder; name files in it"),
        ("../other.py", None, 2, "is outside the work tree"),
        (".git/config", None, 3, "git"),
        ("b.bin", b"\0\1\2" * 9, 3, "b.bin is binary; only text can be summarized"),
        ("p.txt", b"version https://git-lfs.github.com/spec/v1\n", 3, "p.txt is a Git LFS pointer"),
        ("hidden.py", b"x = 1\n", 3, "hidden.py is listed in .repoagentignore"),
        ("empty.py", b"", 1, "empty.py is empty"),
        ("blank.py", b"\n \n", 1, "blank.py is empty"),
    ):
        if data is not None:
            repo.write(name, data)
        done = ask(*(["a.txt"] if code > 1 else []), name, "--model", model.spec)
        assert (done.code, done.out) == (code, "") and message in done.err
    (repo.top / "link.py").symlink_to("/etc/passwd")
    (repo.top / "folder").symlink_to("/etc")
    assert ask("link.py", "--model", model.spec).code == 3
    assert ask("folder/passwd", "--model", model.spec).code in (2, 3)
    assert model.prompts == [] and not (repo.top / ".repoagent").exists()


def test_a_secret_file_must_be_the_only_one(repo: GitRepo, ask: Ask, model: Model) -> None:
    repo.write("secrets.json", '{"key": 1}\n')
    done = ask("a.txt", "secrets.json", "--model", model.spec)
    assert done.code == 3 and "to summarize it, name only this file" in done.err and model.prompts == []
    assert ask("secrets.json", "--model", model.spec).code == 0


def test_no_model_and_wrong_usage(ask: Ask) -> None:
    assert "no model is configured" in ask("a.txt", code=4).err
    assert ask("a.txt", "--json").json["error"]["kind"] == "no_model"
    assert ask("a.txt", "--words", "3").code == ask().code == 2


def test_a_small_file_takes_one_call(repo: GitRepo, ask: Ask, model: Model) -> None:
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


def test_many_calls_need_confirmation_and_a_change_costs_its_segment_and_the_join(
    repo: GitRepo, ask: Ask, model: Model, screen: Open
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


def test_a_model_that_fails_midway(repo: GitRepo, ask: Ask, model: Model) -> None:
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
def test_an_interrupted_summary_is_continued(repo: GitRepo, ask: Ask, model: Model, number: int) -> None:
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


def test_standard_input_and_no_repository(ask: Ask, model: Model, tmp_path: Path) -> None:
    done = ask("-", "--model", model.spec, "--json", stdin=b"def piped():\n    pass\n")
    assert done.json["files"][0]["path"] is None and "It defines piped." in done.out
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "x.py").write_bytes(b"def outside():\n    pass\n")
    assert ask("x.py", "--model", model.spec, cwd=elsewhere, code=0).out.split(".")[0] == "It defines outside"
    assert ask("y.py", "--model", model.spec, cwd=elsewhere).code == 2
    assert sorted(path.name for path in elsewhere.iterdir()) == ["x.py"]


@pytest.mark.soak
def test_two_processes_lose_nothing_and_agree(repo: GitRepo, ask: Ask, model: Model) -> None:
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
