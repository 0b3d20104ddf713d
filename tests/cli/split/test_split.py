"""`repoagent split`; test_join.py has --join."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import GitRepo
from tests.program import run

SOURCE = b"".join(b"def f%d():\n    return %d\n\n\n" % (n, n) for n in range(40))


def split(cwd: Path, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[str]:
    done = run(["split", *arguments], cwd, stdin=stdin)
    out, err = (data.decode("utf-8", "surrogateescape") for data in (done.stdout, done.stderr))
    return subprocess.CompletedProcess(arguments, done.returncode, out, err)


def as_json(cwd: Path, *arguments: str, stdin: bytes = b"") -> dict[str, Any]:
    done = split(cwd, *arguments, "--json", stdin=stdin)
    assert done.returncode == 0, done.stdout
    result = json.loads(done.stdout)
    assert result["version"] == 1
    return dict(result)


@pytest.fixture
def code(repo: GitRepo) -> GitRepo:
    repo.commit("code", **{"src/code.py": SOURCE})
    return repo


WRONG: tuple[tuple[list[str], int, str], ...] = (
    ([], 2, "no file to split"),
    (["nope.py"], 2, "no such file: nope.py"),
    (["src"], 3, "src is a folder: name a file in it"),
    (["../x.py"], 2, "no such file: ../x.py"),
    ([".git/config"], 3, "is in a git directory"),
    (["fifo"], 3, "fifo is a special file"),
    (["link.py"], 3, "link.py is a symbolic link: name the file itself"),
    (["a.txt", "--target-bytes", "0"], 2, "must be between 64 and"),
    (["a.txt", "--target-bytes", "many"], 2, "'many' is not a valid integer"),
    (["a.txt", "--language", "klingon"], 2, "klingon"),
    (["binary"], 3, "binary looks binary; if it is text, use --language"),
    (["wide.py"], 3, "cannot split UTF-16; save wide.py as UTF-8 first"),
    (["a.txt", "-o", "src"], 3, "is neither empty nor a split"),
    (["-"], 2, "use -o to name the folder"),
    (["--refresh", "nope"], 2, "no split at"),
    (["--refresh", "src", "-o", "x"], 2, "--refresh cannot be combined with -o"),
)


def test_wrong_calls_are_one_sentence_and_change_nothing(code: GitRepo) -> None:
    os.mkfifo(code.top / "fifo")
    (code.top / "link.py").symlink_to("src/code.py")
    code.write("binary", b"\0\1\2" * 100)
    code.write("wide.py", SOURCE.decode().encode("utf-16"))
    before = code.status()
    for arguments, number, sentence in WRONG:
        done = split(code.top, *arguments)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (number, "", 1)
        assert sentence in done.stderr
    assert code.status() == before and not (code.top / ".repoagent/splits").exists()


def test_the_split_is_in_repoagent_and_ignored_by_git(code: GitRepo) -> None:
    done = split(code.top / "src", "code.py", "--target-bytes", "400")
    assert done.returncode == 0 and done.stderr == ""
    folder = code.top / ".repoagent/splits/src-code.py"
    names = [path.name for path in sorted(folder.glob("0*.py"))]
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f"{len(names)} segments of src/code.py (1,060 bytes, python, utf-8) in ")
    assert [line.split()[0] for line in lines[3 : 3 + len(names)]] == names
    assert lines[3].split()[1] == "1-52" or lines[3].split()[1].startswith("1-")
    assert "f0, f1, f2" in lines[3]
    assert (
        b"".join((folder / name).read_bytes() for name in names) == SOURCE == (folder / "base").read_bytes()
    )
    assert code.status() == ""
    index = json.loads((folder / "index.json").read_bytes())
    assert index["source"]["path"] == "src/code.py"
    assert index["source"]["blob"] == code.git("rev-parse", "HEAD:src/code.py").strip()


@pytest.mark.soak
def test_json_is_the_index_and_needs_no_folder(code: GitRepo, tmp_path: Path) -> None:
    result = as_json(code.top, "src/code.py")
    written = json.loads((Path(result.pop("folder")) / "index.json").read_bytes())
    assert result == written
    piped = as_json(code.top, "-", "--language", "python", stdin=SOURCE)
    assert piped["folder"] is None and piped["source"]["path"] == "" and piped["language"] == "python"
    assert piped["segments"] == [
        {**one, "file": one["file"].removesuffix(".py")} for one in result["segments"]
    ]
    (tmp_path / "out.py").write_bytes(SOURCE)
    assert as_json(tmp_path, "out.py")["source"]["path"] == str(tmp_path / "out.py")
    failed = split(code.top, "nope", "--json")
    assert failed.returncode == 2 and json.loads(failed.stdout)["error"]["message"] == "no such file: nope"


@pytest.mark.soak
def test_edits_are_kept_by_a_refresh_and_stop_a_new_split(code: GitRepo) -> None:
    split(code.top, "src/code.py", "--target-bytes", "400", "-o", "parts")
    mine = (code.top / "parts/002.py").read_bytes() + b"# mine\n"
    (code.top / "parts/002.py").write_bytes(mine)
    refused = split(code.top, "src/code.py", "-o", "parts")
    assert refused.returncode == 3
    assert "has unmerged edits (002.py); use --join" in refused.stderr
    code.write("src/code.py", SOURCE.replace(b"return 0\n", b"return None\n"))
    done = split(code.top, "--refresh", "parts/index.json")
    assert done.returncode == 0
    assert "002.py: edited by you, kept\n001.py: updated\n" in done.stdout
    code.write("src/code.py", SOURCE.replace(b"return 20\n", b"return None\n"))
    output = as_json(code.top, "--refresh", "parts")["refresh"]
    assert output["edited"] == output["to_merge"] == ["002.py"] and output["written"] == ["001.py"]
    assert "002.py: edited by you and changed in the source; needs a merge" in (
        split(code.top, "--refresh", "parts").stdout
    )
    assert (code.top / "parts/002.py").read_bytes() == mine


@pytest.mark.soak
def test_a_renamed_source_is_named_to_the_refresh(code: GitRepo) -> None:
    split(code.top, "src/code.py", "-o", "parts")
    code.git("mv", "src/code.py", "moved.py")
    gone = split(code.top, "--refresh", "parts")
    assert gone.returncode == 2 and "`repoagent split moved.py --refresh parts`" in gone.stderr
    code.write("moved.py", SOURCE + b"# more\n")
    code.git("add", "moved.py")
    gone = split(code.top, "--refresh", "parts")
    assert gone.returncode == 2 and "`repoagent split NAME --refresh parts`" in gone.stderr
    assert as_json(code.top, "moved.py", "--refresh", "parts")["source"]["path"] == "moved.py"
    assert split(code.top, "--refresh", "parts").stdout.endswith("nothing changed\n")


@pytest.mark.soak
def test_the_command_that_is_shown_can_be_pasted(code: GitRepo) -> None:
    code.commit("odd", **{"it's new\n.py": SOURCE})
    shown = split(code.top / "src", "../it's new\n.py", "-o", "its parts").stdout
    assert "1 segment of it's new^J.py (" in shown
    (code.top / "src/its parts/001.py").write_bytes(SOURCE.replace(b"return 3\n", b"return 4\n"))
    command = shlex.split(shown.partition("then run: repoagent split ")[2])
    assert command == ["--join", "its parts"] and split(code.top / "src", *command).returncode == 0
    assert code.git("log", "-1", "--format=%s") == "Change f3 in it's new^J.py\n"
    shown = split(code.top / "src", "code.py").stdout
    assert shlex.split(shown.partition("then run: repoagent split --join ")[2]) == [
        "../.repoagent/splits/src-code.py"
    ]
