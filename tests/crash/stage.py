"""The stage of a scene: its repository, working copies of it, and checks of what is wrong with a copy afterwards."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from repoagent.edit import apply as apply_run
from repoagent.edit import edit as edit_run
from repoagent.git.worktree import layout_of, open_worktree
from repoagent.memory.identity.store import resolve_memory
from tests.conftest import GitRepo
from tests.crash.checks import litter, look
from tests.crash.fault_library import COUNT, Event, Faults
from tests.crash.scenes import SCENES, in_child, run

REMEMBERED = ("a.txt", "n/ew/new.txt", "src/main.py")


class Stage:
    """`repo` is the working copy of `template`. `events` are those of undisturbed work, `old` and `new` the states
    before and after it."""

    def __init__(self, folder: Path, name: str) -> None:
        self.scene = SCENES[name]
        self.faults = Faults()
        self.template = GitRepo(folder / "work" / "template")
        self.repo = GitRepo(folder / "work" / "repo")
        self.template.top.mkdir(parents=True)
        self.template.git("init", "-q")
        self.scene.prepare(self.template)
        worktree = open_worktree(self.template.top)
        for path in REMEMBERED:  # a look-up updates the memory, so let it do so before
            if (self.template.top / path).exists():
                resolve_memory(layout_of(worktree), worktree, path, self.template.read(path))
        self.old = look(self.template)
        self.fresh()
        self.act()  # loads what is imported late
        self.fresh()
        whole = self.faults.run(self.act, COUNT)
        assert whole.code == 0, whole.code
        self.events: tuple[Event, ...] = whole.events
        self.new = look(self.repo)

    def fresh(self) -> None:
        shutil.rmtree(self.repo.top, ignore_errors=True)
        shutil.copytree(self.template.top, self.repo.top, symlinks=True)
        self.repo.git("status")  # refreshes the index for the copied files

    def act(self) -> int:
        os.chdir(self.repo.top)
        # makes the commits of two runs the same
        for module in (edit_run, apply_run):
            vars(module)["new_edit_id"] = lambda: "20260101-000000-abcdef"
        return run(*self.scene.command)

    def wrong(self, *, lived: bool = False) -> dict[str, object]:
        """Return what is neither old nor new, or left over. A process that `lived` may have recorded its failure."""
        now = look(self.repo)
        landed = now["edits"] != self.old["edits"]
        expected = self.new if landed else self.old
        found: dict[str, object] = {
            key: (expected[key], now[key]) for key in now if now[key] != expected[key]
        }
        if lived and not landed:
            found.pop("memory", None)
        if not landed and self.is_as_the_hook_left_it():
            for key in ("bytes", "status"):
                found.pop(key, None)
        if left := litter(self.repo):
            found["litter"] = left
        fsck = self.repo.git("fsck", "--connectivity-only", "--no-dangling", ok=False)
        if fsck.strip():
            found["fsck"] = fsck
        if not self.repo.git("reflog", ok=False).strip():
            found["reflog"] = "none"
        return found

    def is_as_the_hook_left_it(self) -> bool:
        """Return whether a formatter had rewritten the file before the kill: this looks like a save of the user, so it
        stays, and the previous content is kept elsewhere."""
        kept = list((self.repo.top / ".git/repoagent/kept").glob("*/old-0"))
        return [path.read_bytes() for path in kept] == [self.template.read("a.txt")] and self.repo.read(
            "a.txt"
        ) == self.template.read("a.txt").replace(b"line 2\n", b"LINE 2, formatted\n")

    @property
    def landed(self) -> bool:
        return look(self.repo)["edits"] != self.old["edits"]


def settle(repo: GitRepo) -> int:
    """Run a next command that does nothing itself, and return its exit code."""
    os.chdir(repo.top)
    return in_child(lambda: run("redo", "none"))
