"""Hooks run as usual, their changes to the edit are kept, and the user's other work is restored."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from repoagent.git.transaction.results import HookFailed
from tests.conftest import GitRepo
from tests.git.edits import change, committed, edit, lines, new_file, refused, shout, staged, visible

LINES = lines()
FORMAT = "sed -i 's/  */ /g' a.txt\n"  # a formatter: single spaces


@pytest.mark.parametrize("words", ["no good", ""])
def test_hook_that_fails(repo: GitRepo, words: str) -> None:
    repo.write("README.md", "mine\n")
    repo.write("a.txt", lines({9: "mine 9"}))
    repo.hook("pre-commit", f"{words and f'echo {words} >&2'}\nexit 1\n")
    match = r"(?s)everything was restored" + (
        f".*{words}" if words else "; neither git nor a hook gave a reason$"
    )
    error = refused(repo, HookFailed, match, shout(repo, 5), new_file("n/new", b"x"))
    assert isinstance(error, HookFailed) and not error.by_git


def test_hook_that_fails_and_is_skipped_on_request(repo: GitRepo) -> None:
    repo.hook("pre-commit", "exit 1\n")
    assert edit(repo, shout(repo, 5), no_verify=True).commit == repo.head()


def test_hook_sees_what_is_committed_and_the_usual_environment(repo: GitRepo, tmp_path: Path) -> None:
    repo.write("README.md", "staged\n")
    repo.git("add", "README.md")
    out = tmp_path / "out"
    repo.hook("pre-commit", f"(git diff --cached --name-only; pwd; env | grep ^GIT_ | sort) > {out}\n")
    edit(repo, shout(repo, 5))
    names, top, *variables = out.read_text().splitlines()
    assert (names, top) == ("a.txt", str(repo.top))
    ours = {line.partition("=")[0] for line in variables}
    repo.git("commit", "-qm", "plain")
    usual = {line.partition("=")[0] for line in out.read_text().splitlines() if line.startswith("GIT_")}
    # no collection of garbage while what is only staged is out of git's sight
    assert ours == usual | {"GIT_CONFIG_PARAMETERS"}


def test_commit_message_hook(repo: GitRepo) -> None:
    repo.hook("commit-msg", 'echo "Change-Id: 1" >> "$1"\n')
    edit(repo, shout(repo, 5))
    assert "Change-Id: 1" in repo.git("log", "-1", "--format=%B")


WORK = {9: "mine 9"}
EDITED = {2: "LINE 2"}
BOTH = {**WORK, **EDITED}
FORMAT_STAGED = """
blob=$(git show :a.txt | sed 's/  */ /g' | git hash-object -w --stdin)
git update-index --cacheinfo 100644,$blob,a.txt
"""
FORMAT_AND_FAIL = f"cp a.txt before; {FORMAT}cmp -s a.txt before; code=$?; rm before; exit $code\n"
FORMATTERS = {
    # what is staged and in the file before, the hook, and after it HEAD, index, file, `folded` and `taken_out`
    "adds again": ({}, {}, FORMAT + "git add a.txt", EDITED, EDITED, EDITED, True, False),
    "adds again, staged work": (WORK, WORK, FORMAT + "git add a.txt", EDITED, BOTH, BOTH, True, True),
    "adds again, whole": ({}, WORK, FORMAT + "git add a.txt", BOTH, BOTH, BOTH, True, False),
    "adds other work": ({}, WORK, "git add -u", {2: "LINE    2"}, {2: "LINE    2"}, {**WORK, 2: "LINE    2"}, False, True),
    "formats what is staged": ({}, {}, FORMAT_STAGED, EDITED, EDITED, EDITED, True, False),
    "fails": ({}, {}, FORMAT_AND_FAIL, EDITED, EDITED, EDITED, True, False),
    "fails, other work": ({}, WORK, FORMAT_AND_FAIL, EDITED, EDITED, BOTH, True, False),
}  # fmt: skip


@pytest.mark.parametrize("case", FORMATTERS)
def test_formatter(repo: GitRepo, case: str) -> None:
    in_index, in_file, hook, *expected, folded, taken_out = FORMATTERS[case]
    repo.write("a.txt", lines(in_index))
    repo.git("add", "a.txt")
    repo.write("a.txt", lines(in_file))
    repo.write("README.md", "mine\n")
    repo.git("update-index", "--assume-unchanged", "README.md")
    repo.hook("pre-commit", hook)
    result = edit(repo, change(repo, "a.txt", "line 2", "LINE    2"), include_dirty="whole" in case)
    versions = [committed(repo, "a.txt"), staged(repo, "a.txt"), repo.read("a.txt").decode()]
    assert versions == [lines(version) for version in expected]
    assert result.folded == (("a.txt",) if folded else ())
    assert result.taken_out == (("a.txt",) if taken_out else ())
    assert result.commit == repo.head() and repo.git("rev-list", "--count", "HEAD") == "2\n"
    assert repo.read("README.md") == b"mine\n"


def test_formatter_that_is_never_content(repo: GitRepo) -> None:
    repo.hook("pre-commit", "sed -i 's/$/ /' a.txt; exit 1\n")
    before = visible(repo)
    with pytest.raises(HookFailed, match=r"the hook's version of a\.txt is in"):
        edit(repo, shout(repo, 5))
    assert visible(repo) == before


def test_changes_of_a_failing_hook_stay_like_a_save(repo: GitRepo) -> None:
    """There is no way to distinguish the two."""
    repo.hook("pre-commit", "echo more >> a.txt; exit 1\n")
    with pytest.raises(HookFailed, match=r"a\.txt changed"):
        edit(repo, shout(repo, 5))
    assert repo.read("a.txt").decode() == LINES + "more\nmore\n"


@pytest.mark.parametrize(
    "command", ["git add -u", "git add -A", "git commit-tree HEAD^{tree} </dev/null; git add ."]
)
def test_sweep_of_other_work(repo: GitRepo, command: str) -> None:
    repo.write("gone.txt", "x")
    repo.commit("more")
    repo.write("README.md", "mine\n")
    repo.write("src/app.py", "staged\n")
    repo.git("add", "src/app.py")
    repo.write("untracked.txt", "untracked\n")
    repo.write("added.txt", "added\n")
    repo.git("add", "added.txt")
    (repo.top / "gone.txt").unlink()
    os.utime(repo.top / "untracked.txt")
    before = visible(repo)
    repo.hook("pre-commit", f"sleep 0.05; {command}\n")
    time.sleep(0.05)
    result = edit(repo, shout(repo, 5), message="kept")
    assert repo.git("show", "--name-only", "--format=%s", "HEAD").split() == ["kept", "a.txt"]
    after = visible(repo)
    for key in ("status", "unstaged", "staged"):
        assert after[key] == before[key]
    assert {"README.md", "src/app.py", "gone.txt"} <= set(result.taken_out)
    assert repo.git("log", "-1", "--format=%P").strip() == result.parent


def test_sweep_of_a_submodule(repo: GitRepo, make_repo: Callable[[str], GitRepo]) -> None:
    other = make_repo("other")
    other.commit("one", x="x\n")
    repo.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other.top), "sub")
    repo.commit("submodule")
    sub = GitRepo(repo.top / "sub")
    sub.commit("two", x="y\n")
    before = repo.status()
    assert before == " M sub\n"
    repo.hook("pre-commit", "git add -u\n")
    result = edit(repo, shout(repo, 5))
    assert result.taken_out == ("sub",) and repo.status() == before


def test_file_made_by_a_hook_is_part_of_the_commit(repo: GitRepo) -> None:
    repo.hook("pre-commit", "wc -l a.txt > COUNT; echo >> README.md; git add COUNT README.md\n")
    result = edit(repo, shout(repo, 5))
    assert result.folded == ("COUNT", "README.md")
    assert "COUNT" in repo.git("ls-tree", "--name-only", "HEAD") and repo.status() == ""


@pytest.mark.parametrize("code", [0, 1])
def test_hook_that_destroys_other_work(repo: GitRepo, code: int) -> None:
    repo.write("README.md", "mine\n")
    repo.write("src/app.py", "mine too\n")
    (repo.top / "src/app.py").chmod(0o600)
    before = visible(repo)
    repo.hook("pre-commit", f"git checkout -q -- . \nexit {code}\n")
    edits = shout(repo, 5)
    if code:
        with pytest.raises(HookFailed):
            edit(repo, edits)
        assert visible(repo) == before
    else:
        assert edit(repo, edits).restored == ("README.md", "src/app.py")
        assert repo.read("README.md") == b"mine\n" and repo.read("src/app.py") == b"mine too\n"
        assert repo.status() == " M README.md\n M src/app.py\n"
    assert repo.read("a.txt").decode() == (LINES if code else LINES.replace("line 5", "LINE 5"))


def test_hook_that_runs_something_in_the_background(repo: GitRepo) -> None:
    repo.hook("post-commit", "sleep 30 &\n")
    edit(repo, shout(repo, 5))
    assert repo.status() == ""


@pytest.fixture
def pre_commit(repo: GitRepo) -> GitRepo:
    """A repository with the real pre-commit and a formatter in it that needs no download."""
    fix = repo.write("fix.py", FIXER)
    fix.chmod(0o755)
    repo.write(
        ".pre-commit-config.yaml",
        "repos:\n- repo: local\n  hooks:\n  - id: fix\n    name: fix\n    language: system\n"
        f"    entry: {sys.executable} fix.py\n    files: \\.txt$\n",
    )
    repo.write("b.txt", "b 1\nb 2\nb 3\n")
    repo.commit("configure")
    program = Path(sys.executable).with_name("pre-commit")
    subprocess.run([program, "install"], cwd=repo.top, check=True, capture_output=True)
    return repo


FIXER = """
import sys
changed = False
for path in sys.argv[1:]:
    old = open(path).read()
    new = old.replace("    ", " ")
    if new != old:
        open(path, "w").write(new)
        changed = True
sys.exit(changed)
"""


@pytest.mark.soak
def test_real_pre_commit_with_other_work(pre_commit: GitRepo) -> None:
    repo = pre_commit
    repo.write("a.txt", LINES.replace("line 9", "mine 9"))
    repo.write("b.txt", "b 1\nstaged 2\nb 3\n")
    repo.git("add", "b.txt")
    repo.write("b.txt", "b 1\nstaged 2\nunstaged    3\n")
    repo.write("README.md", "mine\n")
    status = repo.git("status", "--porcelain=v1")
    result = edit(repo, change(repo, "a.txt", "line 2", "LINE    2"))
    assert committed(repo, "a.txt") == LINES.replace("line 2", "LINE 2")
    assert repo.git("show", "--name-only", "--format=", "HEAD") == "a.txt\n"
    assert repo.read("a.txt").decode() == LINES.replace("line 2", "LINE 2").replace("line 9", "mine 9")
    assert (
        repo.read("b.txt") == b"b 1\nstaged 2\nunstaged    3\n"
        and staged(repo, "b.txt") == "b 1\nstaged 2\nb 3\n"
    )
    assert repo.git("status", "--porcelain=v1") == status
    assert result.restored == ()


def test_real_pre_commit_that_fails(pre_commit: GitRepo) -> None:
    repo = pre_commit
    repo.write("fix.py", "raise SystemExit('never')\n")
    repo.commit("stricter")
    repo.write("a.txt", LINES.replace("line 9", "mine 9"))
    repo.write("README.md", "mine\n")
    before = visible(repo)
    with pytest.raises(HookFailed, match="never"):
        edit(repo, shout(repo, 2))
    assert visible(repo) == before
