"""Apply patches: input formats, the blob that a patch was made for, and its names."""

from __future__ import annotations

import subprocess
from email.message import EmailMessage
from pathlib import Path

import pytest

from repoagent.edit.apply import bound_source, from_folder, parse_bindings, read_patch_input
from repoagent.errors import Refused, UsageError
from repoagent.git.files import Source, blob_hash, read_source
from repoagent.git.worktree import open_worktree
from repoagent.patch.apply_answer import read_answer
from tests.cli.apply_patch import GREET, TWO, Here, diff, made
from tests.conftest import GitRepo
from tests.edit.conftest import Run, Script

HEAD = "From: A <a@x>\nDate: today\nSubject: Say hello\n\n"
PATCH = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"


def test_trailers_in_a_mail_are_removed(tmp_path: Path) -> None:
    mail = f"{HEAD}Review-Ignore: *\nSigned-off-by: A <a@x>\n---\n{PATCH}"
    message = read_patch_input("x", mail.encode(), tmp_path).message
    assert message == "Say hello\n\nSigned-off-by: A <a@x>\n"


def formatted(repo: GitRepo, *options: str) -> bytes:
    repo.write("src/app.py", repo.read("src/app.py").replace(b"'world'", "'wörld'".encode()))
    repo.git("commit", "-qam", "Grüße the world\n\nWith an umlaut.\n---\nReviewed-by: B <b@example.com>")
    return repo.git("format-patch", "--stdout", "-1", *options).encode("utf-8", "surrogateescape")


@pytest.mark.parametrize("wrapped", [False, True])
def test_the_message_of_a_mail_is_used(repo: GitRepo, wrapped: bool) -> None:
    mail = formatted(repo)
    if wrapped:  # as sent by a mail program
        body = mail.decode().partition("\n\n")[2]
        message = EmailMessage()
        message["From"], message["Subject"] = "Ada <ada@example.com>", "[PATCH v2] Grüße the world"
        message.set_content(body, cte="base64")
        mail = message.as_bytes()
        assert b"w\xc3\xb6rld" not in mail
    patch_input = read_patch_input("fix.eml", mail, repo.top)
    assert patch_input.message.startswith("Grüße the world\n\nWith an umlaut.")
    assert patch_input.author.endswith("<ada@example.com>")
    (patch,) = read_answer(patch_input.text)
    assert patch.new == "b/src/app.py" and "wörld" in patch.hunks[0].added[0].text


def test_the_author_is_the_user_who_applies_a_mail(repo: GitRepo, here: Here) -> None:
    mail = formatted(repo).replace(b"From: Ada Tester <ada@example.com>", b"From: Bo <bo@example.com>")
    repo.git("reset", "-q", "--hard", "HEAD^")
    done = here(mail, "-y", code=0)
    assert "written by Bo <bo@example.com>, but you will be the author of the commit" in done.err
    assert repo.git("log", "-1", "--format=%an %cn").split() == ["Ada", "Tester", "Ada", "Tester"]
    assert repo.git("log", "-1", "--format=%B").startswith("Grüße the world\n\nWith an umlaut.\n")
    assert "wörld".encode() in repo.read("src/app.py")


def test_several_commits_are_refused(repo: GitRepo) -> None:
    mail = formatted(repo)
    with pytest.raises(Refused, match=r"2 emails.*git am"):
        read_patch_input("x", mail + mail, repo.top)
    with pytest.raises(Refused, match="2 commits"):
        read_patch_input("x", repo.git("log", "-p").encode("utf-8", "surrogateescape"), repo.top)


def test_a_diff_in_the_message_of_git_show_is_not_applied(repo: GitRepo) -> None:
    formatted(repo)
    repo.git("commit", "-q", "--amend", "-m", f"Grüße the world\n\nInstead of\n\n{PATCH}\n{GREET}")
    repo.git("notes", "add", "-m", f"See\n\n{PATCH}")
    for options in ([], ["--stat", "-p"], ["--format=fuller"]):
        shown = repo.git("show", *options)
        for text in (shown, shown.replace("\n", "\r\n")):
            answer = read_patch_input("x", text.encode(), repo.top).text
            assert [patch.new for patch in read_answer(answer)] == ["b/src/app.py"], (options, answer)


def test_a_git_log_in_a_file_is_not_several_commits(repo: GitRepo) -> None:
    repo.commit("second", **{"b.txt": "b\n"})
    answer = f"log.txt\n```\n{repo.git('log')}```\n"
    assert read_patch_input("x", answer.encode(), repo.top).text == answer


def test_encodings_of_a_patch(tmp_path: Path) -> None:
    assert read_patch_input("x", b"\xef\xbb\xbf" + GREET.encode(), tmp_path).text == GREET
    assert read_patch_input("x", b"caf\xe9", tmp_path).text == "caf\udce9"
    with pytest.raises(UsageError, match="empty"):
        read_patch_input("x", b" \n", tmp_path)


def test_a_diff_of_a_latin_1_file_keeps_its_bytes(repo: GitRepo, here: Here) -> None:
    repo.commit("latin", **{"latin.txt": b"caf\xe9\nline\nth\xe9\n"})
    repo.write("latin.txt", b"caf\xe9\nna\xefve\nth\xe9\n")
    repo.write("new.txt", b"\xfcber\n")
    repo.git("add", "-A")
    patch = subprocess.run(["git", "diff", "HEAD"], cwd=repo.top, capture_output=True, check=True).stdout
    repo.git("reset", "-q", "--hard")
    here(patch, "-y", code=0)
    assert repo.read("latin.txt") == b"caf\xe9\nna\xefve\nth\xe9\n"
    assert repo.read("new.txt") == b"\xfcber\n"


def test_bindings() -> None:
    assert parse_bindings(["a=b.txt=1234567", "c=ABCDEF0"]) == {"a=b.txt": "1234567", "c": "abcdef0"}
    for malformed in ("a.txt", "a.txt=", "=1234567", "a.txt=123456", "a.txt=xyzxyzx"):
        with pytest.raises(UsageError, match="use PATH=BLOB"):
            parse_bindings([malformed])
    with pytest.raises(UsageError, match="twice"):
        parse_bindings(["a=1234567", "a=1234568"])


def test_the_blob_that_a_patch_was_made_for_is_found(repo: GitRepo) -> None:
    repo.commit("lines", **{".gitattributes": "win.txt text eol=crlf\n", "win.txt": b"1\r\n2\r\n3\r\n"})
    worktree = open_worktree(repo.top)
    clean, raw = repo.git("rev-parse", "HEAD:win.txt").strip(), blob_hash(b"1\r\n2\r\n3\r\n")
    assert clean != raw
    now = read_source(worktree, "win.txt")
    assert bound_source(worktree, now, clean[:7]) is bound_source(worktree, now, raw[:9]) is now
    repo.write("win.txt", b"1\r\n2\r\n3\r\n4\r\n")
    later = read_source(worktree, "win.txt")
    assert bound_source(worktree, later, clean[:7]).data == b"1\r\n2\r\n3\r\n"  # as in a work tree
    for blob in ("1234567", raw):
        with pytest.raises(Refused, match="git does not have that blob"):
            bound_source(worktree, later, blob)
    with pytest.raises(Refused, match="no longer exists"):
        bound_source(worktree, Source("gone", None, ""), clean)


def test_a_bound_patch_is_merged_into_the_current_text_or_refused(repo: GitRepo, here: Here) -> None:
    blob = repo.git("rev-parse", "HEAD:a.txt").strip()
    # the text now occurs twice: by its lines alone the patch would be ambiguous
    repo.write("a.txt", "intro\n" + repo.read("a.txt").decode() + "\nline 1\nline 2\nline 3\n")
    repo.commit("twice")
    unnumbered = TWO.replace("@@ -1,3 +1,3 @@", "@@")
    assert here(unnumbered, "-y").code == 3
    done = here(TWO, "-y", "--source", f"../a.txt={blob[:7]}", cwd=repo.top / "src", code=0)
    assert f"a.txt has changed since {blob[:7]}; the change was merged into" in done.err
    assert repo.read("a.txt").startswith(b"intro\nline 1\nline two\nline 3\nline 4\n")
    assert repo.read("a.txt").endswith(b"line 2\nline 3\n")
    other = diff("a.txt", "@@ -1,3 +1,3 @@", " line 1", "-line 2", "+line zwei", " line 3")
    stale = here(other, "-y", "--source", f"a.txt={blob[:7]}")
    assert stale.code == 3 and "since the patch was made, on line 2 of the original: recreate" in stale.err
    stray = here(GREET, "-y", "--source", f"README.md={repo.git('rev-parse', 'HEAD:README.md')[:9]}")
    assert stray.code == 2 and "does not change README.md" in stray.err
    assert repo.status() == ""


def test_names_relative_to_a_folder() -> None:
    known = {"sub/x.txt", "sub/a/y.txt", "z.txt", "sub/z.txt"}.__contains__

    def names(answer: str) -> list[tuple[str | None, str | None]]:
        return [(patch.old, patch.new) for patch in from_folder(read_answer(answer), known, "sub/")]

    edit = ("@@ -1 +1 @@", "-1", "+2")
    assert names(diff("x.txt", *edit)) == [("a/sub/x.txt", "b/sub/x.txt")]
    assert names(diff("z.txt", *edit)) == [("a/z.txt", "b/z.txt")]
    assert names(diff("x.txt", *edit) + made("n.txt", "x"))[1][1] == "b/sub/n.txt"
    assert names(diff("z.txt", *edit) + made("n.txt", "x"))[1][1] == "b/n.txt"
    moved = "diff --git a/x.txt b/w.txt\nrename from x.txt\nrename to w.txt\n"
    assert names(moved) == [("sub/x.txt", "sub/w.txt")]


def test_the_path_of_a_tracked_file_is_always_a_name(repo: GitRepo, here: Here) -> None:
    repo.commit("tools", **dict.fromkeys(("bin/run", "bin/stop"), "one\ntwo\n"))
    here("bin/run\n<<<<<<< SEARCH\ntwo\n=======\n2\n>>>>>>> REPLACE\n", "-y", code=0)
    assert (repo.read("bin/run"), repo.read("bin/stop")) == (b"one\n2\n", b"one\ntwo\n")


FLEET = "import os\n\nEXIT = 1\n\n\ndef leave():\n    return 1\n\n\ndef stay():\n    return 0\n\n\ndef go():\n    return stay()\n"


@pytest.fixture
def fleet(repo: GitRepo) -> GitRepo:
    repo.commit("Add the fleet", **{"lib/fleet.py": FLEET})
    return repo


def whole(text: str) -> str:
    return f"\n\nHere's the full updated `fleet.py`:\n\n```python\n{text}```\n"


def test_a_whole_file_below_its_name_may_lack_only_a_named_definition(fleet: GitRepo, here: Here) -> None:
    without = FLEET.replace("def leave():\n    return 1\n\n\n", "")
    done = here(whole(without), "-y", code=3)
    assert "lacks leave (lib/fleet.py)" in done.err and "request" not in done.err
    assert fleet.read("lib/fleet.py") == FLEET.encode()
    for text, options in ((FLEET.replace("return 0", "return 5"), ()), (without, ("-m", "Drop leave"))):
        here(whole(text), "-y", *options, code=0)
        assert fleet.read("lib/fleet.py") == text.encode()


def test_an_exact_diff_that_empties_a_file_needs_strict(fleet: GitRepo, here: Here) -> None:
    fleet.write("lib/fleet.py", "")
    patch = fleet.git("diff")
    fleet.git("checkout", "-q", "lib/fleet.py")
    assert here(patch, "-y").code == 3
    here(patch, "-y", "--strict", code=0)
    assert fleet.read("lib/fleet.py") == b""


MACRO = diff(
    "f.c", "@@ -1,4 +1,6 @@", " int f(int x)", " {", "+\tlist_for_each(p, l) {", "+\t}", " \treturn x;", " }"
)
BROKEN = diff("f.c", "@@ -1,4 +1,5 @@", " int f(int x)", " {", "+\tif (x) {", " \treturn x;", " }")


def test_a_change_after_which_a_file_parses_worse(
    repo: GitRepo, here: Here, edit: Run, script: Script
) -> None:
    head = repo.commit("f", **{"f.c": "int f(int x)\n{\n\treturn x;\n}\n"})

    def applied_and_reset() -> None:
        assert b"if (x) {" in repo.read("f.c")
        repo.git("reset", "-q", "--hard", head)

    done = here(BROKEN, "-y", code=3)
    assert "would no longer parse as c" in done.err and "--no-parse-check" in done.err
    assert repo.head() == head
    assert "f.c may not parse as c, unless a macro makes it valid" in here(MACRO, "-y", code=0).err
    repo.git("reset", "-q", "--hard", head)
    here(BROKEN, "-y", "--no-parse-check", code=0)
    applied_and_reset()
    script.replies(f"```diff\n{BROKEN}```\n")
    edit("--no-parse-check", file="f.c", request="nest it")
    applied_and_reset()
    repo.git("config", "repoagent.edit.parseCheck", "false")
    here(BROKEN, "-y", code=0)
    applied_and_reset()
