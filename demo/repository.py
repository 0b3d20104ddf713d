"""The throw-away repository: a clone of this one with its history, or an equal one where there is none."""

from __future__ import annotations

import os
import shlex
import shutil
import sysconfig
from collections.abc import Mapping
from pathlib import Path

from demo.stage import Failed, Stage, say

SOURCES = Path(__file__).resolve().parents[1]
NAME = "repoagent"
LEFT_OUT = (
    ".git",
    ".repoagent",
    "__pycache__",
    "*.egg-info",
    "dist",
    "site",
    ".*_cache",
    ".cache",
    ".hypothesis",
)


def make(folder: Path, own: Mapping[str, str]) -> Stage:
    """Make the repository in `folder`. Returns the stage in it, with the environment `own`."""
    outside = Stage(folder, isolated(folder / "home"))
    inside = Stage(folder / NAME, own)
    if not _is_checkout(outside) or not _cloned(outside):
        say("These sources have no history of their own, so here is a repository with the same files.")
        _built(folder / NAME)
        inside.must("git init --quiet")
        _introduce(inside)
        inside.must('git add --all && git commit --quiet -m "The sources as they came"')
        return inside
    inside.must("git remote remove origin   # nothing can go back from here")
    _introduce(inside)
    if inside.quietly("git", "symbolic-ref", "HEAD").returncode:
        inside.must("git checkout --quiet -B main")
    _bring_up_to_date(inside)
    return inside


def isolated(home: Path) -> dict[str, str]:
    """An environment that knows nothing of the user's configuration of git and of repoagent."""
    home.mkdir(exist_ok=True)
    quoted = str(SOURCES).replace("\\", "\\\\").replace('"', '\\"')
    (home / ".gitconfig").write_text(  # the sources may belong to somebody else, as in a container
        f'[init]\n\tdefaultBranch = main\n[safe]\n\tdirectory = "{quoted}"\n\tdirectory = "{quoted}/.git"\n',
        encoding="utf-8",
    )
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("GIT_", "REPOAGENT_", "ANTHROPIC_", "XDG_"))
    }
    own = {"HOME": str(home), "XDG_CONFIG_HOME": str(home / ".config"), "GIT_CONFIG_NOSYSTEM": "1"}
    return env | own | _common()


def users_own() -> dict[str, str]:
    """The user's environment, but for what would lead git to another repository."""
    env = {name: value for name, value in os.environ.items() if name not in _ELSEWHERE}
    return env | _common()


_ELSEWHERE = {
    "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE", "GIT_CEILING_DIRECTORIES",
}  # fmt: skip


def _common() -> dict[str, str]:
    scripts = sysconfig.get_path("scripts")
    if not (Path(scripts) / "repoagent").exists():
        raise Failed(f"there is no repoagent in {scripts}: run the demo with `make demo`, which installs it")
    return {
        "PATH": scripts + os.pathsep + os.environ.get("PATH", os.defpath),
        "PAGER": "cat",
        "GIT_PAGER": "cat",
        "PYTHONDONTWRITEBYTECODE": "1",  # replies that are replayed come too fast for its time stamps
    }


def _is_checkout(stage: Stage) -> bool:
    """Whether the sources are the whole work tree of a repository, and it has a commit."""
    found = stage.quietly("git", "-C", str(SOURCES), "rev-parse", "--verify", "--quiet", "HEAD")
    top = stage.quietly("git", "-C", str(SOURCES), "rev-parse", "--show-toplevel")
    return found.returncode == top.returncode == 0 and Path(top.stdout.rstrip("\n")).resolve() == SOURCES


def _cloned(stage: Stage) -> bool:
    """Clone; False when it can't be done, as from a partial clone without network."""
    return stage.run(f"git clone --quiet --no-hardlinks {shlex.quote(str(SOURCES))} {NAME}") == 0


def _built(top: Path) -> None:
    shutil.rmtree(top, ignore_errors=True)

    def left_out(folder: str, names: list[str]) -> set[str]:
        environments = {name for name in names if (Path(folder) / name / "pyvenv.cfg").exists()}
        return environments | set(shutil.ignore_patterns(*LEFT_OUT)(folder, names))

    shutil.copytree(SOURCES, top, ignore=left_out, symlinks=True)


def _introduce(stage: Stage) -> None:
    """Set what git needs to commit, and what the terminal needs to stay plain."""
    if stage.quietly("git", "config", "user.email").returncode:
        stage.ask("git", "config", "user.name", "A. Reader")
        stage.ask("git", "config", "user.email", "reader@example.com")
    if os.environ.get("NO_COLOR"):
        stage.ask("git", "config", "color.ui", "false")


def _bring_up_to_date(stage: Stage) -> None:
    """Commit what of the demo is not committed in the sources: its recording is bound to these very files."""
    cached = shutil.ignore_patterns("__pycache__")
    shutil.copytree(SOURCES / "demo", stage.folder / "demo", dirs_exist_ok=True, ignore=cached)
    if stage.ask("git", "status", "--porcelain", "--", "demo"):
        say("The demo itself has changes that are not committed; the clone gets them as a commit.")
        stage.must('git add demo && git commit --quiet -m "Bring the demo up to date"')
