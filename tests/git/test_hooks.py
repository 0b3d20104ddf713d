"""Hooks run as usual; their changes to the edit are part of it, and the user's other work is restored."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from repoagent.errors import Exit, Refused
from repoagent.git.transaction.finish import recover_transactions
from repoagent.git.transaction.results import HookFailed, UnfinishedTransaction
from repoagent.git.undo import redo, undo
from repoagent.git.undo_log import list_edits
from tests.conftest import GitRepo
from tests.edit.conftest import GREET, Run, Script, run, script
from tests.git.edits import (
    change,
    committed,
    dies,
    edit,
    lines,
    new_file,
    only,
    recovered,
    refused,
    shell,
    shout,
    staged,
    worktree,
)
from tests.git.snapshot import changed, nothing_left, seen, unchanged, visible

__all__ = ["run", "script"]  # fixtures

LINES = lines()
WORK = {9: "mine 9"}
EDITED = {2: "LINE 2"}
BOTH = {**WORK, **EDITED}
WIDE = {2: "LINE    2"}
FORMAT = "sed -i 's/  */ /g' a.txt\n"  # a formatter: single spaces
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
    "adds other work": ({}, WORK, "git add -u", WIDE, WIDE, {**WORK, **WIDE}, False, True),
    "formats what is staged": ({}, {}, FORMAT_STAGED, EDITED, EDITED, EDITED, True, False),
    "does not add again": ({}, {}, FORMAT, WIDE, WIDE, EDITED, False, False),
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
    assert (result.folded, result.taken_out) == (("a.txt",) * folded, ("a.txt",) * taken_out)
    assert result.commit == repo.head() and repo.git("rev-list", "--count", "HEAD") == "2\n"
    assert repo.read("README.md") == b"mine\n"
    nothing_left(repo)
    if hook != FORMAT:  # the hook's text is on the same line
        after = visible(repo)
        undo(worktree(repo))
        assert redo(worktree(repo)).moved and visible(repo) == after


def test_formatter_that_loses_work_in_the_file_and_passes_the_second_time(messy: GitRepo) -> None:
    """It reads only the committed text, and does not restore the rest."""
    messy.hook("pre-commit", f"git checkout -q -- .; {FORMAT}test -e .git/x && exit; touch .git/x; exit 1\n")
    before = seen(messy, "a.txt")
    edit(messy, change(messy, "a.txt", "line 2", "LINE    2"))
    assert committed(messy, "a.txt") == lines(EDITED)
    assert messy.read("a.txt").decode() == lines({**EDITED, 6: "unstaged 6", 9: "staged 9"})
    # what the hook left and the restored work replaced
    kept = (messy.top / ".git/repoagent").glob("*/*/found-own-*")
    assert lines(EDITED) in {path.read_text() for path in kept}
    unchanged(messy, before, "a.txt")


@pytest.mark.parametrize("where", [None, pytest.param("absolute", marks=pytest.mark.soak), ".husky/_"])
def test_hook_sees_the_commit_and_usual_environment(repo: GitRepo, tmp_path: Path, where: str | None) -> None:
    """Wherever the hooks are."""
    repo.write("README.md", "staged\n")
    repo.git("add", "README.md")
    out = tmp_path / "out"
    hook = repo.hook("pre-commit", f"(git diff --cached --name-only; pwd; env | grep ^GIT_ | sort) > {out}\n")
    if where is not None:
        folder = tmp_path / "hooks" if where == "absolute" else repo.top / where
        folder.mkdir(parents=True)
        hook.rename(folder / hook.name)
        repo.git("config", "core.hooksPath", str(folder) if where == "absolute" else where)
    edit(repo, shout(repo, 5))
    names, top, *variables = out.read_text().splitlines()
    assert (names, top) == ("a.txt", str(repo.top))
    ours = {line.partition("=")[0] for line in variables}
    repo.git("commit", "-qm", "plain")
    usual = {line.partition("=")[0] for line in out.read_text().splitlines() if line.startswith("GIT_")}
    # no collection of garbage while what is only staged is out of git's sight
    assert ours == usual | {"GIT_CONFIG_PARAMETERS"}


WAYS = {
    # how a hook fails, what the message says, and whether git is the cause (None: it depends on the hook)
    "exit 1": ("(?s)everything was restored.*neither git nor a hook gave a reason$", False),
    "git add -u; exit 1": (".", None),
    "exit 255": (".", None),
    "kill -9 $$": (".", None),
    "kill -9 $PPID": (".", True),
    "git add -A; exit 3": (".", None),
}
FAILING = [
    pytest.param(name, way, *WAYS[way], marks=[] if n % 3 == m else pytest.mark.soak)
    for m, name in enumerate(["pre-commit", "prepare-commit-msg", "commit-msg"])
    for n, way in enumerate(WAYS)
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "script", "match", "by_git"),
    [
        *FAILING,
        ("pre-commit", "git checkout -q -- .; echo no good >&2; exit 1", "(?s)README.md, b.txt were lost.*no good", None),
        ("commit-msg", ': > "$1"', "empty commit message", False),
        ("reference-transaction", 'test "$1" != prepared', "hook", True),
        ("pre-commit", None, r"pre-commit.*No such file|cannot (run|exec)", None),
    ],
)  # fmt: skip
def test_that_fail(messy: GitRepo, name: str, script: str | None, match: str, by_git: bool | None) -> None:
    hook = messy.hook(name, f"{script}\n")
    if script is None:
        hook.write_text("#!/nowhere/python\n")
    before, head = seen(messy), messy.head()
    with pytest.raises(HookFailed, match=match) as raised:
        edit(messy, shout(messy, 2), new_file("n/new", b"x"))
    assert by_git in (None, raised.value.by_git)
    unchanged(messy, before)
    assert messy.head() == head
    nothing_left(messy)


def test_that_fail_too_late_to_count(messy: GitRepo) -> None:
    for name in ("post-index-change", "post-rewrite"):
        messy.hook(name, "exit 1\n")
    messy.hook("post-commit", "sleep 30 & exit 1\n")
    messy.hook("reference-transaction", 'test "$1" != committed -a "$1" != aborted\n')
    only(messy, "a.txt", "line 2", "LINE 2")


def test_no_verify_and_a_hook_that_is_not_executable(messy: GitRepo, tmp_path: Path) -> None:
    hooks = [messy.hook(name, "exit 1\n") for name in ("pre-commit", "commit-msg")]
    messy.hook("prepare-commit-msg", f"touch {tmp_path}/ran\n")
    only(messy, "a.txt", "line 2", "LINE 2", no_verify=True)
    assert (tmp_path / "ran").exists()
    for hook in hooks:
        hook.chmod(0o644)
    only(messy, "a.txt", "line 4", "LINE 4")


def test_changes_of_a_failing_hook(repo: GitRepo) -> None:
    """White space is the hook's; anything else cannot be distinguished from a save."""
    repo.hook("pre-commit", "sed -i 's/$/ /' a.txt; exit 1\n")
    refused(repo, HookFailed, r"the hook's version of a\.txt is in", shout(repo, 5))
    repo.hook("pre-commit", "echo more >> a.txt; exit 1\n")
    with pytest.raises(HookFailed, match=r"a\.txt changed"):
        edit(repo, shout(repo, 5))
    assert repo.read("a.txt").decode() == LINES + "more\nmore\n"
    repo.write("a.txt", LINES)
    repo.hook("pre-commit", "rm a.txt; ln -s README.md a.txt; exit 1\n")
    with pytest.raises(HookFailed, match=r"a\.txt changed") as caught:
        edit(repo, shout(repo, 2))
    assert (repo.top / "a.txt").is_symlink()
    (kept,) = re.findall(r"\S+/old-0", str(caught.value))
    assert Path(kept).read_text() == LINES


TOUCHING = [
    "git stash -q --keep-index && git stash pop -q\n",
    "git stash -q --keep-index -u; git reset -q --hard; git stash pop -q --index || git stash pop -q\n",
    "git checkout -q -- .\n",
    "git add -u\n",
    "git add -A\n",
    "rm -f README.md b.txt\n",
    "git checkout-index -qaf\n",
    "git add .; git reset -q; git add -u\n",
    "git reset -q --hard HEAD; git checkout -q HEAD -- a.txt\n",
    "git update-index --refresh -q; git status > /dev/null; git diff > /dev/null; git diff --cached > /dev/null\n",
    "git ls-files -z | xargs -0 -P4 -n1 git add 2> /dev/null; true\n",
]


@pytest.mark.parametrize(
    "script", [*TOUCHING[:6], *(pytest.param(one, marks=pytest.mark.soak) for one in TOUCHING[6:])]
)
def test_that_touch_the_users_work(messy: GitRepo, script: str) -> None:
    messy.hook("pre-commit", script)
    before, file = seen(messy, "a.txt"), messy.read("a.txt")
    edited = shout(messy, 2)
    if "reset -q --hard HEAD" in script:  # that takes the edit out of the commit
        with pytest.raises(HookFailed):
            edit(messy, edited)
        assert messy.read("a.txt") == file
    else:
        edit(messy, edited)
        assert messy.git("diff", "--numstat", "HEAD^", "HEAD") == "1\t1\ta.txt\n"
        assert committed(messy, "a.txt") == lines(EDITED)
        assert messy.read("a.txt") == edited.after
    unchanged(messy, before, "a.txt")
    assert staged(messy, "a.txt").replace("LINE 2", "line 2") == lines({9: "staged 9"})
    nothing_left(messy)


def test_sweep_of_other_work(repo: GitRepo, make_repo: Callable[[str], GitRepo]) -> None:
    """Also of a submodule, a deletion, and an untracked file that is older than the hook."""
    other = make_repo("other")
    other.commit("one", x="x\n")
    repo.write("gone.txt", "x")
    repo.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other.top), "sub")
    repo.commit("more")
    GitRepo(repo.top / "sub").commit("two", x="y\n")
    shell(repo, "echo staged > src/app.py; echo added > added.txt; git add src/app.py added.txt; rm gone.txt")
    shell(repo, "echo mine > README.md; echo untracked > untracked.txt")
    before = visible(repo)
    repo.hook("pre-commit", "sleep 0.05; git add -A\n")
    time.sleep(0.05)
    result = edit(repo, shout(repo, 5), message="kept")
    assert repo.git("show", "--name-only", "--format=%s", "HEAD").split() == ["kept", "a.txt"]
    assert changed(before, visible(repo)) == {"file a.txt", "index a.txt", "ref refs/heads/main"}
    every = {"README.md", "src/app.py", "gone.txt", "added.txt", "untracked.txt", "sub"}
    assert set(result.taken_out) == every
    assert repo.git("log", "-1", "--format=%P").strip() == result.parent


def test_files_changed_and_made_by_a_hook_are_part_of_the_commit_and_of_its_undo(repo: GitRepo) -> None:
    made = "wc -l a.txt > COUNT; echo >> README.md; echo x > build.log"
    repo.hook("pre-commit", f"{FORMAT}{made}; git add COUNT README.md a.txt\n")
    before = visible(repo)
    result = edit(repo, change(repo, "a.txt", "line 5", "LINE    5"))
    assert result.folded == ("COUNT", "README.md", "a.txt")
    assert "COUNT" in repo.git("ls-tree", "--name-only", "HEAD") and repo.status() == "?? build.log\n"
    undo(worktree(repo))
    assert changed(before, visible(repo)) == {"file build.log", "status build.log"}


def test_that_delete_the_file(messy: GitRepo) -> None:
    messy.hook("pre-commit", "git rm -qf --cached a.txt; rm a.txt\n")
    edited = shout(messy, 2)
    result = edit(messy, edited)
    assert messy.git("diff", "--name-status", "HEAD^", "HEAD") == "D\ta.txt\n" and "a.txt" in result.folded
    assert messy.read("a.txt") == edited.after and result.restored == ("a.txt",)
    assert staged(messy, "a.txt") == lines({**EDITED, 9: "staged 9"})


def test_that_take_the_file_out_of_the_commit(repo: GitRepo) -> None:
    """The file stays, untracked, as git leaves it, and undo restores it."""
    repo.hook("pre-commit", "git rm -q --cached a.txt\n")
    before = visible(repo)
    assert edit(repo, shout(repo, 2)).folded == ("a.txt",) and "?? a.txt" in repo.status()
    assert repo.read("a.txt").decode() == lines(EDITED)
    undo(worktree(repo))
    assert visible(repo) == before


def test_that_take_the_file_out_of_the_commit_before_a_save(repo: GitRepo) -> None:
    """A save before the transaction is complete is not part of the edit: undo keeps it."""
    repo.hook("pre-commit", "git rm -q --cached a.txt\n")
    repo.hook("post-commit", "sed -i 's/line 9/mine 9/' a.txt\n")
    edit(repo, shout(repo, 2))
    undo(worktree(repo))
    assert repo.read("a.txt").decode() == lines(WORK) and repo.status() == " M a.txt\n"
    redo(worktree(repo))
    assert repo.read("a.txt").decode() == lines(BOTH) and repo.status() == "?? a.txt\n"


def test_that_take_the_file_out_of_the_commit_before_a_crash(repo: GitRepo) -> None:
    """The commit is found by its message, without a trailer."""
    repo.hook("pre-commit", "git rm -q --cached a.txt\n")
    repo.hook("post-commit", "kill -9 $(ps -o ppid= -p $PPID)\n")
    dies(lambda: edit(repo, shout(repo, 2)))
    (note,) = recovered(repo)
    assert "was committed as" in note and repo.status() == "?? a.txt\n"
    assert repo.read("a.txt").decode() == lines(EDITED)


IN_THE_WAY = [
    "rm -rf src", "rm -rf src; touch src", "rm -rf src; ln -s /nowhere src", "rm -rf src; ln -s . src",
    *(f"rm {path}; {made}".format(path) for path in ("README.md", "a.txt")
      for made in ("mkdir {0}", "mkdir {0}; touch {0}/x", "mkfifo {0}")),
]  # fmt: skip


@pytest.mark.soak
@pytest.mark.parametrize("script", IN_THE_WAY)
@pytest.mark.parametrize("code", [0, 1])
def test_that_put_something_in_the_place_of_a_file(repo: GitRepo, script: str, code: int) -> None:
    """The obstacle is removed, or reported and waited for: when it is gone, the next command restores the file."""
    repo.write("README.md", "mine\n")
    repo.write("src/app.py", "mine too\n")
    before, head = seen(repo, "a.txt"), repo.head()
    repo.hook("pre-commit", f"{script}; exit {code}\n")
    edited = shout(repo, 2)
    try:
        edit(repo, edited)
    except (HookFailed, UnfinishedTransaction, Refused) as error:
        assert code or "next repoagent command" in str(error), error
    for path in ("a.txt", "README.md", "src"):
        there = repo.top / path
        if there.is_symlink() or there.is_fifo() or there.is_file() == (path == "src"):
            there.unlink() if not there.is_dir() or there.is_symlink() else shutil.rmtree(there)
    recover_transactions(worktree(repo))
    assert (repo.head() == head) == bool(code)
    if not code:  # the hook has removed it
        repo.git("checkout", "-q", "--", "a.txt")
    assert repo.git("diff", "--cached", "--name-only") == ""
    unchanged(repo, before, "a.txt")
    nothing_left(repo)


def test_that_rewrite_the_message(messy: GitRepo) -> None:
    messy.hook("prepare-commit-msg", 'echo "# not a comment\n---\nTicket: 1" >> "$1"\n')
    trailer = 'git interpret-trailers --in-place --trailer Change-Id:1 "$1"\n'
    messy.hook("commit-msg", f'sed -i "s/the edit/The edit/" "$1"; {trailer}')
    edit(messy, shout(messy, 2), message="the edit\n\nRepoagent-Edit: 1")
    message = messy.git("log", "-1", "--format=%B")
    assert message.startswith("The edit\n") and "Change-Id: 1" in message
    assert "# not a comment\n---\nTicket: 1" in message


@pytest.mark.parametrize(("formats", "branch"), [(False, None), (False, "new"), (True, None)])
def test_veto_of_the_second_reference_update(messy: GitRepo, formats: bool, branch: str | None) -> None:
    """Files that another hook added cannot be removed from the commit then: it is undone, although this hook rejects
    that as well."""
    messy.hook("pre-commit", f"{'sed -i s/2/Z/ a.txt; git add a.txt; ' * formats}git add README.md\n")
    messy.hook(
        "reference-transaction",
        'test "$1" = prepared && grep -q refs/heads || exit 0\n'
        f"test $(wc -l < .git/x) -ge {2 if branch else 1} && echo no-rewriting >&2 && exit 1\necho >> .git/x\n",
    )
    (messy.top / ".git/x").touch()
    before, head = seen(messy), messy.head()
    with pytest.raises(HookFailed, match=r"README\.md(?s:.)*no-rewriting") as raised:
        edit(messy, shout(messy, 2), branch=branch)
    assert raised.value.by_git and raised.value.exit_code == Exit.CHECK_FAILED
    assert messy.head() == head and "new" not in messy.git("branch")
    unchanged(messy, before)
    nothing_left(messy)


@pytest.mark.soak
def test_veto_of_the_second_reference_update_after_a_crash(messy: GitRepo) -> None:
    """The next command undoes it as well, and says why."""
    messy.hook("pre-commit", "git add README.md\n")
    messy.hook("reference-transaction", 'test "$1" != prepared || ! test -e .git/x\n')
    messy.hook("post-commit", "touch .git/x; kill -9 $(ps -o ppid= -p $PPID)\n")
    before, head = seen(messy), messy.head()
    dies(lambda: edit(messy, shout(messy, 2)))
    assert messy.head() != head
    (note,) = recovered(messy)
    assert "rolled back" in note and "README.md" in note
    assert messy.head() == head
    unchanged(messy, before)


def test_that_sweep_in_and_commit_on_top(messy: GitRepo) -> None:
    """The added files are in the history then, and this is reported."""
    commit = 'test -n "$IN" && exit; export IN=1; echo 2 > VERSION; git add VERSION; git commit -qm theirs\n'
    messy.hook("pre-commit", "git add README.md\n")
    messy.hook("post-commit", commit)
    before = seen(messy, "a.txt", "README.md", "VERSION")
    result = edit(messy, shout(messy, 2), message="ours")
    assert messy.git("log", "-2", "--format=%s").split() == ["theirs", "ours"]
    assert result.commit == messy.git("rev-parse", "HEAD^").strip() and result.taken_out == ()
    stays = "a hook added README.md to the commit, and repoagent cannot remove that because another commit is on top"
    assert stays in result.notes
    assert committed(messy, "README.md") == "mine\n" == staged(messy, "README.md")
    assert changed(before, seen(messy, "a.txt", "README.md", "VERSION")) == {"status README.md"}
    assert "README.md" not in messy.status() and messy.read("README.md") == b"mine\n"
    nothing_left(messy)


def test_that_stage_something_after_the_commit(repo: GitRepo) -> None:
    """It is in the index that git used, which must not become the user's."""
    repo.commit("more", **{"b.txt": LINES})
    repo.write("b.txt", "mine\n")
    repo.write("untracked.txt", "mine\n")
    repo.hook("post-commit", "git add b.txt; git add -N untracked.txt; git rm -q --cached src/app.py\n")
    before = seen(repo, "a.txt")
    edit(repo, shout(repo, 2))
    unchanged(repo, before, "a.txt")
    nothing_left(repo)


CONFIGURATION = """\
repos:
- repo: local
  hooks:
  - {id: never, name: never, language: system, entry: sh -c 'echo so many; exit 1', files: txt}
"""


def test_real_pre_commit_that_fails(repo: GitRepo) -> None:
    repo.commit("configure", **{".pre-commit-config.yaml": CONFIGURATION})
    program = Path(sys.executable).with_name("pre-commit")
    subprocess.run([program, "install"], cwd=repo.top, check=True, capture_output=True)
    repo.write("a.txt", lines(WORK))
    repo.write("README.md", "mine\n")
    refused(repo, HookFailed, "so many", shout(repo, 2))


REPLACING = [
    "rm a.txt; mkdir a.txt",
    "ln -sf /nowhere a.txt",
    ": > a.txt",
    "sort -r a.txt -o a.txt; sed -i s/mine/x/ a.txt",
]


@pytest.mark.parametrize("script", REPLACING)
def test_lost_work_in_a_file_of_the_edit_that_cannot_be_restored(repo: GitRepo, script: str) -> None:
    repo.write("a.txt", lines({9: "mine 9"}))
    repo.hook("pre-commit", f"{script}\n")
    edited = shout(repo, 2)
    [note] = [note for note in edit(repo, edited).notes if note.startswith("a.txt changed while git was")]
    assert Path(note.rpartition("; its earlier content is in ")[2]).read_bytes() == edited.after
    assert committed(repo, "a.txt") == lines({2: "LINE 2"})


def test_that_switch_the_branch(repo: GitRepo) -> None:
    repo.hook("pre-commit", "git symbolic-ref HEAD refs/heads/other; git branch other main\n")
    assert edit(repo, shout(repo, 2)).branch == list_edits(worktree(repo))[-1].branch == "other"
    assert repo.git("rev-parse", "main") != repo.git("rev-parse", "other")


def test_that_break_the_index(repo: GitRepo) -> None:
    """The transaction ends even if git cannot tell whether there is a commit; the next command completes it."""
    repo.hook("post-commit", "cp .git/index ../index; echo broken > .git/index\n")
    with pytest.raises(UnfinishedTransaction, match="next repoagent command will complete it"):
        edit(repo, shout(repo, 2))
    shutil.copy(repo.top.parent / "index", repo.top / ".git" / "index")
    assert "was committed as" in recover_transactions(worktree(repo))[0]
    assert committed(repo, "a.txt") == lines({2: "LINE 2"}) and repo.status() == ""
    nothing_left(repo)


PATHSPECS = ("GIT_GLOB_PATHSPECS", "GIT_ICASE_PATHSPECS", "GIT_NOGLOB_PATHSPECS", "GIT_LITERAL_PATHSPECS")


@pytest.mark.parametrize(
    "env",
    [
        {"GIT_GLOB_PATHSPECS": "1", "GIT_ICASE_PATHSPECS": "1", "GIT_DIFF_OPTS": "-u7"},
        pytest.param({"GIT_LITERAL_PATHSPECS": "1"}, marks=pytest.mark.soak),
        pytest.param({"GIT_NOGLOB_PATHSPECS": "1"}, marks=pytest.mark.soak),
    ],
    ids=lambda env: next(iter(env)),
)
def test_settings_of_pathspecs_and_patches_are_for_hooks(
    repo: GitRepo, run: Run, script: Script, tmp_path: Path, env: dict[str, str]
) -> None:
    names = [f"${name}" for name in (*PATHSPECS, "GIT_DIFF_OPTS")]
    expected = [env[name[1:]] for name in names if name[1:] in env]
    for hook in ("pre-commit", "post-checkout"):
        repo.hook(hook, f"echo {' '.join(names)} > {tmp_path}/{hook}\n")
    repo.write(".gitignore", "ignored\n")
    repo.write("*.py", "x\n")
    repo.commit("more")
    repo.write("src/app.py", b"# mine\n" + repo.read("src/app.py"))
    script.replies(GREET)
    assert run("edit", "src/app.py", "greet with a comma", "--branch", "new", "--yes", env=env).code == 0
    assert "hello, " in committed(repo, "src/app.py") and "mine" not in committed(repo, "src/app.py")
    for hook in ("pre-commit", "post-checkout"):
        assert (tmp_path / hook).read_text().split() == expected
    for command in ("review HEAD^..HEAD", "neighbors src/app.py", "undo", "redo"):
        assert run(*command.split(), env=env).code == 0, command
    assert repo.git("rev-parse", "--abbrev-ref", "HEAD") == "new\n"


def test_a_branch_that_is_a_link_to_another_is_followed(repo: GitRepo) -> None:
    repo.git("branch", "real")
    repo.git("symbolic-ref", "refs/heads/link", "refs/heads/real")
    repo.git("symbolic-ref", "HEAD", "refs/heads/link")
    before = repo.head()
    made = edit(repo, shout(repo, 5))
    assert (made.branch, repo.git("rev-parse", "real").strip()) == ("real", made.commit)
    assert undo(worktree(repo)).moved and repo.head() == before
    with pytest.raises(Refused, match="link is a symbolic ref to branch real: run `git switch real` first"):
        edit(repo, shout(repo, 5), branch="new")
    assert repo.read(".git/HEAD") == b"ref: refs/heads/link\n"


def test_a_head_outside_of_branches_is_refused_at_once(repo: GitRepo, run: Run, tmp_path: Path) -> None:
    repo.hook("pre-commit", f"touch {tmp_path}/hooked\n")
    repo.git("update-ref", "refs/other/x", "HEAD")
    repo.git("symbolic-ref", "HEAD", "refs/other/x")
    with pytest.raises(Refused, match="HEAD is on refs/other/x, which is not a branch: switch to a branch"):
        edit(repo, shout(repo, 5))
    done = run("edit", "a.txt", "x", "--yes")
    assert done.code == 3 and "refs/other/x, which is not a branch" in done.err
    assert not (tmp_path / "hooked").exists()
