"""`repoagent outline`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.apply_patch import Ask, Done
from tests.conftest import GitRepo

SOURCE = (
    "class Server:\n    # how it runs\n    def run(self, host: str, port: int = 80) -> None:\n        def inner(): ...\n"
    "\n\ndef main():\n    pass\n"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder outside a repository."""
    (tmp_path / "app.py").write_text(SOURCE)
    (tmp_path / "empty").mkdir()
    (tmp_path / "bin").write_bytes(b"\0\1")
    (tmp_path / "a.unknown").write_text("x\n")
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


@pytest.fixture
def outline(folder: Path, in_process: Ask) -> Ask:
    """`repoagent outline ARGUMENTS` in this process, in `folder` or `cwd`."""
    return lambda *arguments, cwd=folder, **more: in_process("outline", *arguments, cwd=cwd, **more)


def test_wrong_calls_are_one_sentence(outline: Ask) -> None:
    for arguments, sentence in WRONG:
        done = outline(*arguments)
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1) and sentence in done.err


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file(folder: Path, outline: Ask) -> None:
    (folder / "app.py").chmod(0)
    done = outline("app.py")
    assert done.code == 2 and "cannot read app.py: Permission denied" in done.err


RUN = "2-4  def run(self, host: str, port: int = 80) -> None\n"


def test_one_definition_its_contents_depth_kind_and_syntax_errors(folder: Path, outline: Ask) -> None:
    (folder / "odd::name.py").write_text("def odd(): ...\n")
    for words, shown in (
        ("app.py --depth 1", "1-4  class Server\n7-8  def main()\n"),
        ("app.py --kind method", RUN),
        ("app.py::Server.run", f"{RUN}  4    def inner()\n"),
        ("app.py::Server.run --depth 1", RUN),
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
    for path, content in (
        ("lib/a.py", SOURCE), ("lib/b.md", "# B\n"), ("lib/logo.png", b"\x89PNG\0"), ("lib/c.unknown", "x"),
    ):  # fmt: skip
        repo.write(path, content)
    repo.commit()
    repo.write("lib/untracked.py", "def u(): ...\n")
    repo.write("lib/.gitignore", "")
    (repo.top / "lib" / "b.md").unlink()
    (repo.top / "lib" / "link.py").symlink_to("a.py")
    repo.git("add", "lib/link.py")
    done = outline("lib", "--depth", "1", cwd=repo.top)
    assert done.out == "lib/a.py\n1-4  class Server\n7-8  def main()\n"
    assert done.err == "skipped 2 files: 1 no grammar, 1 binary\n"
    inside = outline(".", "--kind", "class", cwd=repo.top / "lib")
    assert inside.out == "a.py\n1-4  class Server\n"


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
    error = outline("nope.py", "--json")
    assert error.code == 2 and "no such file" in error.json["error"]["message"]
