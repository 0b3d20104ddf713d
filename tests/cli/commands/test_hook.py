"""`repoagent hook`: installed by the user, run by git, also for edits of repoagent."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from tests.cli.apply_patch import Ask, Done, program
from tests.conftest import GitRepo

PATHS = ("a.py", "test_a.py")
PARTNER = "partner-missing: test_a.py"


def _stream() -> bytes:
    """Commits as git fast-import reads them, the last an hour ago: pairs of files that always change together."""
    pairs = [PATHS, *((f"src/{name}.py", f"tests/test_{name}.py") for name in "bcdefgh")]
    out, count = [], 40 * len(pairs)
    for number in range(count):
        when = int(time.time()) - 3600 * (count - number)
        out.append(f"commit refs/heads/main\ncommitter Ada <ada@example.com> {when} +0000\ndata 2\nx\n")
        text = "".join(f"line {n}\n" for n in range(10)) + f"{number}\n"
        out += [f"M 100644 inline {path}\ndata {len(text)}\n{text}\n" for path in pairs[number % len(pairs)]]
    return "".join(out).encode()


@pytest.fixture
def history(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, clean_environment: Path) -> GitRepo:
    """A repository whose two files always change together, with its index; a copy of one that is made once."""
    template = tmp_path_factory.getbasetemp() / "together"
    if not template.exists():
        template.mkdir()
        made = GitRepo(template)
        made.git("init", "-q")
        made.git("fast-import", "--quiet", stdin=_stream())
        made.git("reset", "-q", "--hard")
        shutil.rmtree(template / ".git/hooks")
        assert program(template, "mine").code == 0
    shutil.copytree(template, tmp_path / "repo")
    repo = GitRepo(tmp_path / "repo")
    repo.git("update-index", "-q", "--refresh")
    return repo


def change(repo: GitRepo, *paths: str) -> None:
    for path in paths:
        repo.write(path, repo.read(path) + b"changed\n")


def stage(repo: GitRepo, *paths: str) -> None:
    change(repo, *paths)
    repo.git("add", *paths)


@pytest.fixture
def hook(history: GitRepo, in_process: Ask) -> Ask:
    """`repoagent hook run ARGUMENTS` in this process."""
    return partial(in_process, "hook", "run", cwd=history.top)


def commit(repo: GitRepo, *arguments: str, cwd: Path | None = None) -> Done:
    command = ["git", "commit", *arguments]
    done = subprocess.run(command, cwd=cwd or repo.top, capture_output=True, text=True, check=False)
    return Done(done.returncode, done.stdout, done.stderr)


def test_staged_changes_are_reviewed_and_findings_of_the_level_stop_git(
    history: GitRepo, hook: Ask, in_process: Ask
) -> None:
    stage(history, "a.py")
    change(history, "test_a.py")  # in the work tree alone: it will not be in the commit
    os.utime(history.top / "a.py")  # git itself would refresh the index now
    index = history.top / ".git/index"
    before = (index.read_bytes(), index.stat().st_mtime_ns)
    done = hook("pre-commit", "--fail-on", "warning")
    assert done.code == 6 and PARTNER in done.out
    assert "see the details" not in done.out and "in 40 of the last 40 commits" in done.out
    assert "stopped the commit; bypass this with: git commit --no-verify" in done.err
    done = hook("pre-commit")
    output = done.out.splitlines()
    assert (done.code, len(output)) == (0, 5)
    assert output[0].startswith(f"warning {PARTNER}") and output[1].startswith("  a.py  [")
    assert output[2] == "see the details with: repoagent review --commit HEAD"
    assert (index.read_bytes(), index.stat().st_mtime_ns) == before
    assert not list((history.top / ".git").glob("*.lock"))
    history.git("commit", "-qm", "alone")
    shown = in_process("review", "--commit", "HEAD", cwd=history.top).out
    assert "in 40 of the last 40 commits" in shown
    # a finding that stops git is shown in full, and says how to see the shortened ones
    history.write("debug.py", "breakpoint()\n")
    history.write("new.py", "<<<<<<< ours\na\n=======\nb\n>>>>>>> theirs\n")
    history.git("reset", "-q", "--soft", "HEAD^")
    history.git("add", "debug.py", "new.py")
    done = hook("pre-commit")
    assert done.code == 6 and "\nsee the details with: repoagent review\n" in done.out
    history.git("rm", "-q", "-f", "debug.py", "new.py")
    # without findings, nothing is printed
    history.git("add", "test_a.py")
    history.write(".git/MSG", "message\n")
    for words in ("pre-commit", "commit-msg .git/MSG", "pre-push origin url"):
        assert hook(*words.split(), stdin=b"") == Done(0, "", "")


def test_a_trailer_dismisses_a_finding_unless_it_is_cut_off(history: GitRepo, hook: Ask) -> None:
    stage(history, "a.py")
    for trailer, is_shown in (
        ("Review-Ignore: partner-missing test_a.py\n", False),
        ("# Review-Ignore: partner-missing\n", True),
        ("# ------------------------ >8 ------------------------\nReview-Ignore: partner-missing\n", True),
    ):
        history.write(".git/MSG", f"Subject\n\n{trailer}")
        assert (PARTNER in hook("commit-msg", ".git/MSG").out) is is_shown
    history.write(".git/MSG", "Subject\n\nReview-Ignore: partners-missing\nReview-Ignore:\n")
    output = hook("commit-msg", ".git/MSG").err
    assert "unknown rule 'partners-missing'; the rules are: secret" in output and "names no rule" in output


def test_pushed_commits_are_reviewed(history: GitRepo, hook: Ask) -> None:
    base = history.head()
    stage(history, "a.py")
    history.git("commit", "-qm", "alone")
    line = f"refs/heads/main {history.head()} refs/heads/main {base}\n"
    done = hook("pre-push", "origin", "url", "--fail-on", "warning", stdin=line.encode())
    assert done.code == 6 and PARTNER in done.out and "1 warning in the push of main" in done.out
    assert "git push --no-verify" in done.err
    gone = f"(delete) {'0' * 40} refs/heads/main {base}\n"
    assert hook("pre-push", "origin", "url", stdin=gone.encode()) == Done(0, "", "")


@pytest.mark.soak
def test_one_rule_alone_and_a_dismissed_finding(history: GitRepo, hook: Ask, in_process: Ask) -> None:
    stage(history, "a.py")
    model = "anthropic/claude-sonnet-5-5"
    done = hook("pre-commit", "--only", "partner-missing", REPOAGENT_REVIEW__MODEL=model)
    assert PARTNER in done.out and "model" not in done.err
    assert PARTNER not in hook("pre-commit", "--only", "secret").out
    assert "unknown rule 'nothing'" in hook("pre-commit", "--only", "nothing").err
    assert hook("pre-commit", "--fail-on", "never").code == 0
    output = hook("pre-commit", "--fail-on", "warning", "--json")
    (finding,) = output.json["reports"][0]["findings"]
    assert output.code == 6 and output.json["hook"] == "pre-commit" and finding["path"] == "a.py"
    assert in_process("review", "dismiss", finding["id"], cwd=history.top).code == 0
    assert hook("pre-commit", "--fail-on", "warning").code == 0


@pytest.mark.soak
def test_a_problem_of_the_review_itself_is_a_warning(history: GitRepo, hook: Ask, tmp_path: Path) -> None:
    stage(history, *PATHS)
    for model, sentence in (
        ("anthropic/claude-sonnet-5-5", "is incomplete: no key for Anthropic's models"),
        ("command:false", "is incomplete"),
    ):
        done = hook("pre-commit", REPOAGENT_REVIEW__MODEL=model)
        assert (done.code, done.out) == (0, "") and sentence in done.err and done.err.count("\n") <= 2
    assert hook("pre-commit", "--strict", REPOAGENT_REVIEW__MODEL="command:false").code == 4
    done = hook("pre-commit", REPOAGENT_REVIEW__FAIL_ON="sometimes")
    assert done.code == 0 and "not reviewed: " in done.err and done.err.count("\n") == 1
    assert hook("pre-commit", "--strict", REPOAGENT_REVIEW__FAIL_ON="sometimes").code == 2
    assert "not reviewed: " in hook("pre-commit", cwd=tmp_path, code=0).err


@pytest.mark.soak
def test_install_status_and_uninstall(history: GitRepo, in_process: Ask) -> None:
    hooks = partial(in_process, "hook", cwd=history.top)
    assert [one["state"] for one in hooks("status", "--json").json["hooks"]] == ["none"] * 3
    done = hooks("install", "--commit-msg", "--pre-push")
    assert done.code == 0 and done.err.count("installed ") == 2 and done.out == ""
    assert hooks("status").out.splitlines()[1:] == [
        "pre-commit  none", "commit-msg  installed by repoagent", "pre-push    installed by repoagent",
    ]  # fmt: skip
    done = hooks("uninstall", "--json")
    assert len(done.json["done"]) == 2 and not list((history.top / ".git/hooks").iterdir())
    assert "no repoagent hooks here" in hooks("uninstall").err
    history.hook("pre-commit", "# File generated by pre-commit\n")
    assert "belongs to another program" in hooks("install", code=3).err


def test_a_folder_is_not_a_hook(history: GitRepo, in_process: Ask) -> None:
    hooks = partial(in_process, "hook", cwd=history.top)
    folder = history.top / ".git/hooks/pre-commit"
    folder.mkdir(parents=True)
    assert hooks("status").out.splitlines()[1] == "pre-commit  a folder"
    assert f"{folder} is a folder, not a hook; move it away" in hooks("install", code=3).err


@pytest.fixture
def hooked(history: GitRepo) -> GitRepo:
    """The same with a hook that stops at a warning. It runs this checkout, not an installed version."""
    history.git("config", "repoagent.review.fail-on", "warning")
    assert program(history.top, "hook", "install").code == 0
    return history


def test_git_commit_runs_it(hooked: GitRepo) -> None:
    stage(hooked, "a.py")
    before = hooked.head()
    stopped = commit(hooked, "-m", "alone")
    assert stopped.code == 1 and PARTNER in stopped.err and hooked.head() == before
    assert commit(hooked, "--no-verify", "-m", "alone").code == 0


def test_a_clean_merge_has_no_changes_of_its_own(hooked: GitRepo) -> None:
    """Both programs that run hooks let pre-merge-commit run that of pre-commit; MERGE_HEAD does not exist yet."""
    hooked.git("switch", "-q", "-c", "side")
    stage(hooked, "a.py")
    assert commit(hooked, "--no-verify", "-m", "alone").code == 0
    hooked.git("switch", "-q", "main")
    hooked.commit("ours", **{"other.py": b"x\n"})
    hooks = hooked.top / ".git/hooks"
    shutil.copy(hooks / "pre-commit", hooks / "pre-merge-commit")
    done = hooked.git("merge", "-q", "--no-edit", "side")
    assert PARTNER not in done and len(hooked.git("rev-parse", "HEAD^@").split()) == 2


@pytest.mark.soak
def test_all_ways_to_commit(hooked: GitRepo, tmp_path: Path) -> None:
    """Each builds its own index, which must be reviewed."""
    reset = ("reset", "-q", "--hard")
    change(hooked, *PATHS)
    assert commit(hooked, "-am", "both").code == 0
    change(hooked, "a.py")
    assert PARTNER in commit(hooked, "-am", "alone").err
    hooked.git(*reset)
    stage(hooked, *PATHS)
    assert PARTNER in commit(hooked, "a.py", "-m", "a part").err  # test_a.py stays staged
    assert commit(hooked, "a.py", "test_a.py", "-m", "both parts").code == 0
    change(hooked, *PATHS)
    hooked.git(*reset)
    stage(hooked, "a.py")
    hooked.git("commit", "-q", "--no-verify", "--date=2026-01-01T12:00:00", "-m", "alone")
    stage(hooked, "test_a.py")
    assert commit(hooked, "--amend", "--no-edit").code == 0
    (hooked.top / "sub").mkdir()
    stage(hooked, "a.py")
    assert PARTNER in commit(hooked, "-m", "alone", cwd=hooked.top / "sub").err
    hooked.git(*reset)
    hooked.git("worktree", "add", "-q", str(tmp_path / "linked"))
    linked = GitRepo(tmp_path / "linked")
    stage(linked, "a.py")
    assert PARTNER in commit(linked, "-m", "alone").err
    assert commit(hooked, "--allow-empty", "-m", "empty").code == 0


@pytest.mark.soak
def test_the_program_pre_commit_runs_both_hooks(history: GitRepo, clean_environment: Path) -> None:
    manifest = Path(__file__).parents[3] / ".pre-commit-hooks.yaml"
    import yaml

    local = []
    for one in yaml.safe_load(manifest.read_text()):
        one["language"] = "system"
        one["entry"] = one["entry"].replace("repoagent", f"{sys.executable} -m repoagent", 1)
        del one["minimum_pre_commit_version"]
        local.append(one)
    history.write(".pre-commit-config.yaml", yaml.safe_dump({"repos": [{"repo": "local", "hooks": local}]}))
    history.git("add", ".pre-commit-config.yaml")
    history.git("commit", "-qm", "config")
    install = [sys.executable, "-m", "pre_commit", "install"]
    subprocess.run(install, cwd=history.top, check=True, capture_output=True)
    stage(history, "a.py")
    change(history, "test_a.py")  # pre-commit stashes it and restores it
    history.git("config", "repoagent.review.fail-on", "warning")
    stopped = commit(history, "-m", "alone")
    assert stopped.code == 1 and stopped.err.count(PARTNER) == 2
    assert history.read("test_a.py").endswith(b"changed\n")
    history.git("config", "repoagent.review.fail-on", "error")
    done = commit(history, "-m", "alone")
    assert done.code == 0 and done.err.count(PARTNER) == 2  # reported although it stops nothing
    change(history, "a.py")
    assert commit(history, "-am", "both").code == 0
