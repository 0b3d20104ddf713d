"""`repoagent split`; tests/edit/join has more of --join."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import pytest

from tests.cli.apply_patch import Ask
from tests.cli.screens import PROGRAM, Screen
from tests.conftest import GitRepo

SOURCE = b"".join(b"def f%d():\n    return %d\n\n\n" % (n, n) for n in range(40))


@pytest.fixture
def code(repo: GitRepo) -> GitRepo:
    repo.commit("code", **{"src/code.py": SOURCE})
    return repo


def test_wrong_calls_are_one_sentence_and_change_nothing(code: GitRepo, ask: Ask) -> None:
    os.mkfifo(code.top / "fifo")
    (code.top / "link.py").symlink_to("src/code.py")
    code.write("binary", b"\0\1\2" * 100)
    code.write("wide.py", SOURCE.decode().encode("utf-16"))
    before = code.status()
    for words, number, sentence in (
        ("", 2, "no file to split"),
        ("nope.py", 2, "no such file: nope.py"),
        ("src", 3, "src is a folder: name a file in it"),
        ("../x.py", 2, "no such file: ../x.py"),
        (".git/config", 3, "is in a git directory"),
        ("fifo", 3, "fifo is a special file"),
        ("link.py", 3, "link.py is a symbolic link: name the file itself"),
        ("a.txt --target-bytes 0", 2, "must be between 64 and"),
        ("a.txt --target-bytes many", 2, "'many' is not a valid integer"),
        ("a.txt --language klingon", 2, "klingon"),
        ("binary", 3, "binary looks binary; if it is text, use --language"),
        ("wide.py", 3, "cannot split UTF-16 text; save wide.py as UTF-8 first"),
        ("a.txt -o src", 3, "is neither empty nor a split"),
        ("-", 2, "use -o to name the folder"),
        ("--refresh nope", 2, "no split at"),
        ("--refresh src -o x", 2, "--refresh cannot be combined with -o"),
    ):
        assert sentence in ask(*words.split(), stdin=SOURCE, code=number).error
    assert code.status() == before and not (code.top / ".repoagent/splits").exists()


def test_the_split_is_in_repoagent_and_ignored_by_git(code: GitRepo, ask: Ask) -> None:
    done = ask("code.py", "--target-bytes", "400", cwd=code.top / "src")
    assert done.code == 0 and done.err == ""
    folder = code.top / ".repoagent/splits/src-code.py"
    names = [path.name for path in sorted(folder.glob("0*.py"))]
    lines = done.out.splitlines()
    assert lines[0].startswith(f"{len(names)} segments of src/code.py (1,060 bytes, python, utf-8) in ")
    assert [line.split()[0] for line in lines[3 : 3 + len(names)]] == names
    assert lines[3].split()[1].startswith("1-") and "f0, f1, f2" in lines[3]
    whole = b"".join((folder / name).read_bytes() for name in names)
    assert whole == SOURCE == (folder / "base").read_bytes()
    assert code.status() == ""
    source = json.loads((folder / "index.json").read_bytes())["source"]
    assert source["path"] == "src/code.py"
    assert source["blob"] == code.git("rev-parse", "HEAD:src/code.py").strip()


@pytest.mark.soak
def test_json_is_the_index_and_needs_no_folder(code: GitRepo, ask: Ask, tmp_path: Path) -> None:
    result = ask("src/code.py", "--json").json
    written = json.loads((Path(result.pop("folder")) / "index.json").read_bytes())
    assert result == written and result["version"] == 1
    piped = ask("-", "--language", "python", "--json", stdin=SOURCE).json
    assert piped["folder"] is None and piped["source"]["path"] == "" and piped["language"] == "python"
    segments = [{**one, "file": one["file"].removesuffix(".py")} for one in result["segments"]]
    assert piped["segments"] == segments
    (tmp_path / "out.py").write_bytes(SOURCE)
    assert ask("out.py", "--json", cwd=tmp_path, code=0).json["source"]["path"] == str(tmp_path / "out.py")
    assert ask("nope", "--json", code=2).json["error"]["message"] == "no such file: nope"


@pytest.mark.soak
def test_edits_are_kept_by_a_refresh_and_stop_a_new_split(code: GitRepo, ask: Ask) -> None:
    ask("src/code.py", "--target-bytes", "400", "-o", "parts")
    mine = code.read("parts/002.py") + b"# mine\n"
    code.write("parts/002.py", mine)
    assert "has unmerged edits (002.py); use --join" in ask("src/code.py", "-o", "parts", code=3).err
    code.write("src/code.py", SOURCE.replace(b"return 0\n", b"return None\n"))
    done = ask("--refresh", "parts/index.json")
    assert done.code == 0 and "002.py: edited by you, kept\n001.py: updated\n" in done.out
    code.write("src/code.py", SOURCE.replace(b"return 20\n", b"return None\n"))
    output = ask("--refresh", "parts", "--json").json["refresh"]
    assert output["edited"] == output["to_merge"] == ["002.py"] and output["written"] == ["001.py"]
    again = ask("--refresh", "parts").out
    assert "002.py: edited by you and changed in the source; needs a merge" in again
    assert code.read("parts/002.py") == mine


@pytest.mark.soak
def test_a_renamed_source_is_named_to_the_refresh(code: GitRepo, ask: Ask) -> None:
    ask("src/code.py", "-o", "parts")
    code.git("mv", "src/code.py", "moved.py")
    assert "`repoagent split NAME --refresh parts`" in ask("--refresh", "parts", code=2).err
    assert ask("moved.py", "--refresh", "parts", "--json").json["source"]["path"] == "moved.py"
    assert ask("--refresh", "parts").out.endswith("nothing changed\n")


@pytest.mark.soak
def test_the_command_that_is_shown_can_be_pasted(code: GitRepo, ask: Ask) -> None:
    code.commit("odd", **{"it's new\n.py": SOURCE})
    src = code.top / "src"
    shown = ask("../it's new\n.py", "-o", "its parts", cwd=src).out
    assert "1 segment of it's new^J.py (" in shown
    (src / "its parts/001.py").write_bytes(SOURCE.replace(b"return 3\n", b"return 4\n"))
    command = shlex.split(shown.partition("then run: repoagent split ")[2])
    assert command == ["--join", "its parts"] and ask(*command, cwd=src).code == 0
    assert code.git("log", "-1", "--format=%s") == "Change it's new^J.py\n"
    shown = ask("code.py", cwd=src).out
    command = shlex.split(shown.partition("then run: repoagent split --join ")[2])
    assert command == ["../.repoagent/splits/src-code.py"]


# `--join` on a terminal.

BIG = "".join(f"def f{n}(value):\n    first = value\n    return first\n\n\n" for n in range(1, 5))


@pytest.fixture
def folder(repo: GitRepo, in_process: Ask) -> Path:
    """The split of `big.py`."""
    repo.commit("the file", **{"big.py": BIG})
    assert in_process("split", "big.py", "--target-bytes", "70").code == 0
    return repo.top / ".repoagent/splits/big.py"


def edit(folder: Path, name: str, value: str) -> None:
    segment = folder / name
    segment.write_text(segment.read_text().replace("first = value", f"first = {value}"))


def join(repo: GitRepo, *options: str, width: int = 80) -> Screen:
    command = [*PROGRAM, "split", "--join", ".repoagent/splits/big.py", *options]
    return Screen(command, repo.top, env={"NO_COLOR": "1"}, width=width)


@pytest.mark.soak
def test_force_shows_what_it_discards_and_asks(repo: GitRepo, folder: Path, in_process: Ask) -> None:
    edit(folder, "002.py", "ours")
    head, mark, tail = BIG.partition("def f2")
    theirs = head + mark + tail.replace("first = value", "first = theirs", 1).replace("f4", "f9")
    repo.commit("moved on", **{"big.py": theirs})
    before = repo.read("big.py"), repo.head()
    with join(repo, "--force") as window:
        shown = window.expect("Discard them [y,q,?]? ")
        message = "will discard these changes to big.py (line 2 of 002.py against line 7 of big.py)"
        assert message in " ".join(shown.split())
        assert "first = theirs" in shown and "f9" not in shown and "ours" not in shown
        window.send("q\n")
        window.expect("cancelled: nothing was changed.")
        assert window.end() == 1
    assert (repo.read("big.py"), repo.head()) == before
    with join(repo, "--force") as window:
        window.answer("Discard them [y,q,?]? ", "y\n")
        shown = window.expect("[main ")
        message = "discarded changes to big.py in favor of 002.py; `repoagent undo` restores them"
        assert message in " ".join(shown.split())
        assert "002.py  +1 -1  replaces a source change" in shown
        assert window.end() == 0
    assert repo.read("big.py") == before[0].replace(b"theirs", b"ours") and repo.status() == ""
    assert in_process("undo").code == 0
    assert repo.read("big.py") == before[0]


def test_a_terminal_shows_the_diff_and_the_message(repo: GitRepo, folder: Path) -> None:
    edit(folder, "003.py", "3")
    (folder / "003.py").write_text((folder / "003.py").read_text().rstrip("\n"))
    with join(repo, width=72) as window:
        shown = window.expect("diff: .repoagent/splits/big.py/join.diff")
        assert window.end() == 0
    assert "diff --git a/big.py b/big.py" in shown and "    Change big.py\n" in shown
    assert " ".join(shown.split()).count("restored the final newlines") == 1
    assert "003.py  +1 -1\n" in shown and "Change big.py · 1 file +1 -1" in shown
