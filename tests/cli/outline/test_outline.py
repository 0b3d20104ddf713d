"""`repoagent outline`."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.conftest import GitRepo
from tests.program import run

SOURCE = (
    "class Server:\n    # how it runs\n    def run(self, host: str, port: int = 80) -> None:\n        def inner(): ...\n"
    "\n\ndef main():\n    pass\n"
)


def outline(cwd: Path, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[str]:
    done = run(["outline", *arguments], cwd, stdin=stdin)
    out, err = (data.decode("utf-8", "surrogateescape") for data in (done.stdout, done.stderr))
    return subprocess.CompletedProcess(arguments, done.returncode, out, err)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder outside a repository."""
    (tmp_path / "app.py").write_text(SOURCE)
    (tmp_path / "empty").mkdir()
    (tmp_path / "bin").write_bytes(b"\0\1")
    (tmp_path / "a.rb").write_text("class A; end\n")
    (tmp_path / "a.unknown").write_text("x\n")
    (tmp_path / "pipe.py").mkdir()
    return tmp_path


WRONG: tuple[tuple[list[str], str], ...] = (
    (["nope.py"], "no such file: nope.py"),
    (["empty"], "empty contains no file"),
    (["bin"], "repoagent: bin is binary\n"),
    (["a.unknown"], "a.unknown is in an unknown language; use --language"),
    (["app.py::"], "no name after the :: in app.py"),
    (["app.py::nope"], "app.py has no symbol 'nope'; it has Server (1-4), main (7-8)"),
    (["empty::f"], "empty is a folder; :: needs a file"),
    (["-"], "standard input needs --language"),
    (["-", "--language", "pyton"], "unknown language 'pyton'; choose one of ada, bash,"),
    (["app.py", "--depth", "0"], "'--depth': 0 is not in the range x>=1"),
    (
        ["app.py", "--kind", "klass"],
        "invalid value for '--kind': 'klass' is not one of 'function', 'method',",
    ),
    ([], "missing argument 'FILE...'"),
    (["app.py", "--words", "40"], "--words needs --summary"),
    (["app.py", "-y"], "--yes needs --summary"),
    (["app.py", "--summary", "--kind", "class"], "--kind cannot be combined with --summary"),
)


def test_wrong_calls_are_one_sentence(folder: Path) -> None:
    for arguments, sentence in WRONG:
        done = outline(folder, *arguments)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert sentence in done.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file(folder: Path) -> None:
    (folder / "app.py").chmod(0)
    done = outline(folder, "app.py")
    assert done.returncode == 2 and "cannot read app.py: Permission denied" in done.stderr


def test_depth_and_kind(folder: Path) -> None:
    assert outline(folder, "app.py", "--depth", "1").stdout == "1-4  class Server\n7-8  def main()\n"
    assert (
        outline(folder, "app.py", "--kind", "method").stdout
        == "2-4  def run(self, host: str, port: int = 80) -> None\n"
    )
    none = outline(folder, "app.py", "--kind", "enum")
    assert (none.returncode, none.stdout, none.stderr) == (1, "", "nothing found\n")


def test_one_definition_and_its_contents(folder: Path) -> None:
    done = outline(folder, "app.py::Server.run")
    assert done.stdout == "2-4  def run(self, host: str, port: int = 80) -> None\n  4    def inner()\n"
    assert outline(folder, "app.py::Server.run", "--depth", "1").stdout.count("\n") == 1
    (folder / "odd::name.py").write_text("def odd(): ...\n")
    assert "def odd()" in outline(folder, "odd::name.py").stdout


def test_standard_input(folder: Path) -> None:
    done = outline(folder, "-", "--language", "markdown", stdin=b"# A\n\n## B\n")
    assert (done.returncode, done.stdout) == (0, "1-3  # A\n  3    ## B\n")
    assert outline(folder, "a.unknown", "--language", "python").returncode == 1


def test_syntax_errors_are_reported(folder: Path) -> None:
    (folder / "broken.py").write_text("def a():\n    pass\n\ndef b(:\n    pass\n\ndef c(): ...\n")
    done = outline(folder, "broken.py")
    assert done.returncode == 0 and "def c()" in done.stdout
    assert done.stderr == "syntax errors in broken.py (1); definitions near them may be missing\n"


def test_a_folder_of_a_repository_is_what_git_tracks(repo: GitRepo) -> None:
    for path, content in (
        ("lib/a.py", SOURCE),
        ("lib/b.md", "# B\n"),
        ("lib/logo.png", b"\x89PNG\0"),
        ("lib/c.unknown", "x"),
    ):
        repo.write(path, content)
    repo.commit()
    repo.write("lib/untracked.py", "def u(): ...\n")
    repo.write("lib/.gitignore", "")
    (repo.top / "lib" / "b.md").unlink()
    (repo.top / "lib" / "link.py").symlink_to("a.py")
    repo.git("add", "lib/link.py")
    done = outline(repo.top, "lib", "--depth", "1")
    assert done.stdout == "lib/a.py\n1-4  class Server\n7-8  def main()\n"
    assert done.stderr == "skipped 2 files: 1 no grammar, 1 binary\n"
    inside = outline(repo.top / "lib", ".", "--kind", "class")
    assert inside.stdout == "a.py\n1-4  class Server\n"


def test_folders_and_files_at_once(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "b.sh").write_text("f() {\n  :\n}\n")
    (folder / "sub" / ".hidden.py").write_text("def h(): ...\n")
    done = outline(folder, "sub", "app.py", "bin", "sub/b.sh", "--depth", "1")
    assert done.returncode == 0
    assert done.stdout == "sub/b.sh\n1-3  f()\n\napp.py\n1-4  class Server\n7-8  def main()\n"
    assert done.stderr == "skipped 1 file: 1 binary\n"


def test_json(folder: Path) -> None:
    done = outline(folder, "app.py", "bin", "--json")
    result = json.loads(done.stdout)
    assert result["version"] == 1
    assert result["skipped"] == [{"path": "bin", "reason": "binary"}]
    (file,) = result["files"]
    counts = {"path": "app.py", "language": "python", "lines": 8, "errors": 0, "symbols": 4}
    assert {**file, "symbols": len(file["symbols"])} == counts
    lines = {"first_line": 2, "last_line": 4, "depth": 1}
    names = {"name": "run", "kind": "method", "qualified_name": "Server.run"}
    assert file["symbols"][1] == {
        **names,
        **lines,
        "signature": "def run(self, host: str, port: int = 80) -> None",
    }
    error = outline(folder, "nope.py", "--json")
    assert error.returncode == 2 and "no such file" in json.loads(error.stdout)["error"]["message"]
