"""Run one task repeatedly, killed at a different event each time and resumed, and report what is wrong at its end.

    python -m tests.crash.runs FOLDER SCENE EVERY [PART]

in the `environment` of fault_library.py. EVERY 1 kills at each event, in each way; 2 at each event once; more at each
kind of event once. PART is the number of kills to take from these, evenly spaced. Prints a line of JSON for each kill.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from repoagent.git.worktree import layout_of, open_worktree
from repoagent.llm.conversation import read_conversation
from repoagent.tasks.changes.change_set import open_change_set
from tests.conftest import GitRepo
from tests.crash.checks import contents, litter
from tests.crash.fault_library import ALL, COUNT, MAIN, SELF, TOLD, TORN, Event, Faults
from tests.crash.kill import kind
from tests.crash.run_scenes import SCENES, prepare, with_model
from tests.crash.scenes import in_child, run

WAYS = {
    (SELF, 0): "killed", (ALL, 0): "all killed", (MAIN, 0): "killed while others go on", (TORN, 0): "killed in a write",
    (TOLD, signal.SIGTERM): "SIGTERM", (TOLD, signal.SIGHUP): "SIGHUP", (TOLD, signal.SIGINT): "^C",
}  # fmt: skip
TRIES = 4
OF_HOOKS = frozenset({"sed", "sh", "pre-commit", "git:add"})
OPTIONS = ("--mode", "auto-edit", "--no-sandbox", "--allow", "sh change.sh", "--max-turns", "60")


@dataclass
class Stage:
    """A task and its repositories: `repo` is the working copy of `template`. `events` are those of an undisturbed run,
    `end` is the state after it, and `calls` the number of its model calls."""

    folder: Path
    name: str
    faults: Faults = field(default_factory=Faults)
    events: tuple[Event, ...] = ()
    end: dict[str, Any] = field(default_factory=dict)
    calls: int = 0

    def __post_init__(self) -> None:
        self.scene = SCENES[self.name]
        self.template = GitRepo(self.folder / "work" / "template")
        self.repo = GitRepo(self.folder / "work" / "repo")
        self.file = Path("/dev/shm") / f"calls-{os.getpid()}"  # not on a disk: no event
        self.said = Path("/dev/shm") / f"said-{os.getpid()}"
        self.template.top.mkdir(parents=True)
        self.template.git("init", "-q")
        prepare(self.template, self.scene)
        with_model(self.scene, self.file)
        self.head = self.template.head()
        self.before = state(self.template)
        self.fresh()
        assert self.act() == 0, self.said.read_text()  # loads what is imported late
        self.fresh()
        whole = self.faults.run(self.act, COUNT)
        assert whole.code == 0, (whole.code, self.said.read_text())
        self.events = whole.events
        self.calls = self.count()
        self.end = state(self.repo)
        assert self.repo.read("c.txt") == b"C\n"  # in "family" by a subagent
        wrong = self.wrong(self.calls)
        assert not wrong, wrong

    def without_formatters(self) -> None:
        """Remove temporary files of the hook's killed `sed`, which no command has to remove."""
        for left in self.repo.top.rglob("sed??????"):
            left.unlink()

    def fresh(self) -> None:
        shutil.rmtree(self.repo.top, ignore_errors=True)
        shutil.copytree(self.template.top, self.repo.top, symlinks=True)
        self.repo.git("update-index", "-q", "--refresh", ok=False)
        self.file.write_text("")
        self.said.write_text("")

    def count(self) -> int:
        return self.file.read_text().count("\n")

    def act(self) -> int:
        return self.program("run", "--conversation", "work", *self.scene.arguments, *OPTIONS, "do all of it")

    def go_on(self) -> int:
        """Resume the run, or start it again if the conversation is still empty, as a user would."""
        conversation = read_conversation(self.repo.top / ".repoagent/conversations/work.md")
        if conversation is None or not conversation.turns:
            return self.act()
        return self.program("run", "--resume", "work", *self.scene.arguments, *OPTIONS)

    def program(self, *arguments: str) -> int:
        os.chdir(self.repo.top)
        held = [os.dup(1), os.dup(2)]
        target = os.open(self.said, os.O_WRONLY | os.O_APPEND)
        try:
            os.dup2(target, 1), os.dup2(target, 2)
            return run(*arguments)
        finally:
            sys.stdout.flush(), sys.stderr.flush()
            os.dup2(held[0], 1), os.dup2(held[1], 2)
            for one in (*held, target):
                os.close(one)

    def wrong(self, most: int, *, redone: bool = False) -> dict[str, Any]:
        """Return the differences from an undisturbed run of `most` calls; `redone` means that a command was interrupted."""
        found: dict[str, Any] = {}
        now = state(self.repo)
        for key, value in self.end.items():
            if now[key] != value:
                found[key] = differ(value, now[key])
        if litter(self.repo):
            found["litter"] = litter(self.repo)
        if self.count() > most:
            found["calls"] = (most, self.file.read_text())
        worktree = open_worktree(self.repo.top)
        for run_dir in sorted(layout_of(worktree).runs.iterdir()):
            change_set = open_change_set(worktree, run_dir / "changes")
            if change_set.changes or change_set.pending:
                found[f"ledger of {run_dir.name}"] = [change.name for change in change_set.changes]
        conversation = read_conversation(self.repo.top / ".repoagent/conversations/work.md")
        turns = conversation.turns if conversation else ()
        messages = [turn.meta["message"] for turn in turns if "message" in turn.meta]
        if messages != ["1.md"] * bool(self.scene.message):
            found["messages"] = messages
        record = json.loads((self.repo.top / ".repoagent/runs/work/run.json").read_text())
        made = self.repo.git("rev-list", "--reverse", f"{self.head}..HEAD").split()
        if (record["state"], record["commits"]) != ("done", made):
            found["record"] = (record["state"], record["commits"], made)
        for _ in made:
            if in_child(lambda: self.program("undo")) != 0:
                found["undo"] = self.said.read_text()[-300:]
        after = state(self.repo)
        for key, value in self.before.items():
            if after[key] != value and key != "commits" and not (key == "bytes" and redone):
                found[f"undone {key}"] = differ(value, after[key])
        return found

    def torn_work(self) -> dict[str, Any]:
        """Return what is wrong with the user's work right after a kill."""
        found: dict[str, Any] = {}
        top = self.repo.top
        for name in ("README.md", "b.txt", "untracked.txt"):
            if (top / name).read_bytes() != self.template.read(name):
                found[name] = (top / name).read_bytes()
        if (
            not (top / "a.txt").exists()
            or b"staged 25\n" not in self.repo.read("a.txt")
            or b"mine 29\n" not in self.repo.read("a.txt")
        ):
            found["a.txt"] = "the user's lines are gone"
        if (
            "staged 25" not in self.repo.git("show", ":a.txt")
            or self.repo.git("show", ":README.md") != "staged\n"
        ):
            found["staged"] = self.repo.git("diff", "--cached")
        for name in ("a.txt", "c.txt", "d.txt", "gone.txt", "src/app.py"):
            if not (top / name).exists() and name in ("a.txt", "c.txt", "d.txt"):
                found[name] = "gone"
        return found


def state(repo: GitRepo) -> dict[str, Any]:
    files = {name: data for name, data in contents(repo.top).items() if not name.startswith(".repoagent/")}
    return {
        "bytes": files,
        "tree": repo.git("ls-tree", "-r", "HEAD"),
        "index": repo.git("ls-files", "--stage", "-v"),
        "commits": int(repo.git("rev-list", "--count", "HEAD")),
        "branch": repo.git("symbolic-ref", "HEAD"),
    }


def differ(one: Any, other: Any) -> Any:
    if isinstance(one, dict):
        return {
            name: (one.get(name), other.get(name))
            for name in {*one, *other}
            if one.get(name) != other.get(name)
        }
    return (one, other)


def points(events: tuple[Event, ...], every: int, top: Path) -> Iterator[tuple[Event, tuple[int, int]]]:
    """Yield the events to kill at, each with a mode and a signal."""
    seen: set[tuple[str, ...]] = set()
    signals = [(TOLD, number) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)]
    for event in events:
        ours = event.program.startswith("python")
        ways = [(SELF, 0), (ALL, 0), *signals] if ours else [(MAIN, 0), (ALL, 0), (SELF, 0), *signals]
        if not event.program.startswith(("python", "git")):
            ways.remove((SELF, 0))
        if ours and event.call == "write":
            ways.append((TORN, 0))
        key = kind(event, top)
        if every == 1:
            yield from ((event, way) for way in ways)
        elif every == 2 or key not in seen:
            yield event, ways[len(seen) % len(ways) if every > 2 else event.number % len(ways)]
        seen.add(key)


def main(folder: Path, name: str, every: int, part: int = 0, first: int = 0) -> None:
    stage = Stage(folder, name)
    chosen = list(points(stage.events, every, stage.repo.top))
    print(
        len(stage.events), "events,", len(chosen), "kills,", stage.calls, "calls", file=sys.stderr, flush=True
    )
    for event, (mode, number) in chosen[first :: max(1, len(chosen) // part)] if part else chosen[first:]:
        stage.fresh()
        ran = stage.faults.run(stage.act, mode, event.number, number)
        met = next((one for one in ran.events if one.number == event.number), None)
        if mode == SELF and met is not None and met.program in OF_HOOKS:  # a hook may do anything then
            continue
        stage.without_formatters()
        found: dict[str, Any] = {}
        try:
            found |= stage.torn_work()
            codes = []
            stage.said.write_text("")
            if ran.code != 0:
                for _ in range(TRIES):
                    codes.append(in_child(stage.go_on))
                    if codes[-1] == 0:
                        break
            if codes[-1:] not in ([], [0]):
                found["codes"] = codes, stage.said.read_text()[-600:]
            conversation = stage.repo.read(".repoagent/conversations/work.md")
            redone = conversation.count(b"was interrupted:")
            again = (redone + (conversation.count(b"The subagent failed") > 0)) * (
                1 + len(stage.scene.child)
            )  # an interrupted subagent starts again
            found |= stage.wrong(stage.calls + 1 + again, redone=bool(redone))
            if "Traceback" in stage.said.read_text():
                found["traceback"] = stage.said.read_text()[-1500:]
        except Exception as error:  # noqa: BLE001
            found["exception"] = repr(error)[:1000]
        print(
            json.dumps(
                {
                    "number": event.number, "of": len(stage.events), "way": WAYS[mode, number],
                    "event": met and f"{met.program} {met.call} {met.path}",
                    "code": ran.code, "wrong": found,
                }, default=repr,
            ),
            flush=True,
        )  # fmt: skip


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:]))
