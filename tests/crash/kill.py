"""Run one scene repeatedly, killed at a different event each time, and report what is wrong after the next command.

    python -m tests.crash.kill FOLDER SCENE EVERY [PART]

in the `environment` of fault_library.py. EVERY 1 kills at each event, in each way; N at every Nth event and once at
each kind of event (program, call and kind of file). PART is as in runs.py. Prints a line of JSON for each kill.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.conftest import GitRepo
from tests.crash.checks import contents
from tests.crash.fault_library import ALL, MAIN, SELF, TORN, Event
from tests.crash.stage import Stage, settle

WAYS = {SELF: "killed", ALL: "all killed", MAIN: "killed while git goes on", TORN: "killed in a write"}


def kind(event: Event, top: Path) -> tuple[str, ...]:
    """Return the program, call and path of an event, without the names and numbers of one run."""
    path = event.path.replace(str(top), "")
    path = re.sub(r"objects/[0-9a-f]{2}(/\w+)?", "objects/…", path)
    path = re.sub(r"(-\d+)?(-[0-9a-f]+)+|[0-9a-f]{8,}|\d+", "…", path)
    return event.program, event.call, path


def owner(event: Event) -> str:
    """Return whose process an event is in: "ours", "git" or "hook"."""
    return (
        "ours" if event.program.startswith("python") else "git" if event.program.startswith("git") else "hook"
    )


def points(
    events: tuple[Event, ...], every: int, seen: set[tuple[str, ...]], top: Path
) -> Iterator[tuple[Event, int]]:
    """Yield the events to kill at, each with a mode."""
    last = len(events) - 1
    writers = {event.program for event in events if event.call not in ("start", "end")}
    for event in events:
        # repoagent need not remove the files of killed programs of a hook
        modes = {"ours": [SELF], "git": [SELF, ALL, MAIN], "hook": [MAIN]}[owner(event)]
        if owner(event) == "ours" and event.call == "write":
            modes.append(TORN)
        key = kind(event, top)
        if event.program not in writers:
            key = ("reader", event.call)
        if every == 1 or event.number in (0, last):
            yield from ((event, mode) for mode in modes)
        elif key not in seen or event.number % every == 0:
            yield event, modes[len(seen) % len(modes)]
        seen.add(key)


def users_commit(stage: Stage, folder: Path) -> str:
    """Describe what is wrong if the user commits before any command of repoagent: git must refuse, or the result must
    be right."""
    copy = GitRepo(folder / "copy")
    shutil.copytree(stage.repo.top, copy.top, symlinks=True)
    try:
        present = contents(copy.top)
        copy.git("status")
        copy.git("add", "-u", ok=False)
        copy.git("commit", "-qm", "by hand", ok=False)
        if copy.git("log", "-1", "--format=%s").strip() != "by hand":
            return "" if (copy.top / ".git/index.lock").exists() else "the user's commit failed"
        settle(copy)
        settled = repr(contents(copy.top))
        if settled not in (stage.old["bytes"], stage.new["bytes"]):
            return f"after the user's commit of {present} there is {settled}"
        if settled == stage.old["bytes"] and "--no-commit" in stage.scene.command:
            return ""  # they committed a half-done change, which was then undone: a difference
        changed = copy.git("status", "--porcelain", "--untracked-files=no")
        return f"after the user's commit: {changed}" if changed else ""
    finally:
        shutil.rmtree(copy.top)


def main(folder: Path, name: str, every: int, part: int = 0) -> None:
    stage = Stage(folder, name)
    seen: set[tuple[str, ...]] = set()
    chosen = list(points(stage.events, every, seen, stage.repo.top))
    chosen.sort(key=lambda point: point[1])  # by mode, so that a part has some of each
    for planned, mode in chosen[:: max(1, len(chosen) // part)] if part else chosen:
        number = planned.number
        for _ in range(3):
            stage.fresh()
            ran = stage.faults.run(stage.act, mode, number)
            event = next((event for event in ran.events if event.number == number), None)
            if event is None or owner(event) == owner(planned):
                break
        else:
            continue  # git made fewer calls, so the number is another process's; killing a hook's grep changes the result
        ours = users_commit(stage, folder) if number % 3 == 0 or every > 1 else ""
        settled = settle(stage.repo)
        found = stage.wrong(lived=ran.code >= 0)
        if ours:
            found["user"] = ours
        again = settle(stage.repo)
        print(
            json.dumps(
                {
                    "number": number, "of": len(stage.events), "way": WAYS[mode],
                    "event": event and f"{event.program} {event.call} {event.path}",
                    "code": ran.code, "settled": (settled, again), "landed": stage.landed,
                    "wrong": found,
                }, default=repr,
            ),
            flush=True,
        )  # fmt: skip


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:]))
