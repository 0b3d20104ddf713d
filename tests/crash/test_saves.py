"""Files are saved at random times during edit, apply, undo, run and join: no save is lost unless a line names the copy.

REPOAGENT_SAVES is the minimum number of saves (default 1000), REPOAGENT_SEED the seed of the random times.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests import program
from tests.conftest import GitRepo
from tests.crash.saver import slot
from tests.edit.conftest import MODEL

pytestmark = pytest.mark.soak
ROOT = Path(__file__).parents[2]
SAVES = int(os.environ.get("REPOAGENT_SAVES", "1000"))
SEED = int(os.environ.get("REPOAGENT_SEED", str(random.randrange(10**6))))
FILES = {"a.txt": ("far", "near"), "b.txt": ("far",), "c.txt": ("far",), "d.md": ("far",)}
TEXT = "".join(f"line {n}\n" for n in range(10))
BODY = f"top\ntarget: 0\nslot near: none\n{TEXT}slot far: none\n{TEXT}"
SECTIONS = "".join(f"# Part {n}\n\nSome words about {n}, to fill it.\n\n" for n in range(4))
PARTS = f"# One\n\ntarget: 0\n\n{SECTIONS}# Two\n\nslot far: none\n\n{SECTIONS}"
HOOKS = {
    "none": None,
    "sleeps": "sleep 0.3",
    "fails": "sleep 0.3; exit 1",
    "stashes": "locked git stash -q --keep-index; sleep 0.3; locked git stash pop -q || true",
    "stashes and loses": "locked git stash -q --keep-index; sleep 0.3",
    "stashes and fails": "locked git stash -q --keep-index; sleep 0.3; locked git stash pop -q; exit 1",
    "formats": "sleep 0.1; locked sed -i 's/  *$//; s/$/ /' a.txt; sleep 0.1; locked git add a.txt",
    "formats and fails": "locked sed -i 's/  *$//; s/$/ /' a.txt; sleep 0.2; exit 1",
}
WAYS = ("edit", "apply", "apply", "undo", "run", "join", "redo", "killed", "killed")


@dataclass
class Field:
    """The repository and the known saves in it. `safe` are tokens that are in a reported or stashed copy."""

    repo: GitRepo
    folder: Path
    chance: random.Random
    safe: set[str] = field(default_factory=set)
    last: dict[tuple[str, str], str] = field(default_factory=dict)
    read: int = 0
    saves: int = 0
    lost: list[str] = field(default_factory=list)
    done: dict[str, int] = field(default_factory=dict)

    @property
    def log(self) -> Path:
        return self.folder / "saves"

    def target(self, path: str) -> int:
        found = re.search(rb"^target: (\d+)", self.repo.read(path), re.MULTILINE)
        return int(found[1]) if found else 0

    def diff(self, path: str) -> str:
        with self.alone():
            now = self.target(path)
        return f"```diff\n--- a/{path}\n+++ b/{path}\n@@\n-target: {now}\n+target: {now + 1}\n```\n"

    def replies(self, *replies: str) -> dict[str, str]:
        model = self.folder / "model"
        model.mkdir(exist_ok=True)
        (model / "model.sh").write_text(MODEL)
        for old in model.glob("*-*"):
            old.unlink()
        for number in range(12):
            (model / f"reply-{number:02}").write_text(replies[min(number, len(replies) - 1)])
        return {"REPOAGENT_MODEL": f"command:sh {model}/model.sh {model}"}

    def act(self, way: str) -> str:
        """Run the command `way` and return its output."""
        run = self.repo.top
        if way == "edit":
            arguments, stdin, env = (
                ["edit", "a.txt", "count on", "--yes"],
                "",
                self.replies(self.diff("a.txt")),
            )
        elif way in ("apply", "killed"):
            arguments, stdin, env = ["apply", "--yes"], self.diff("a.txt"), {}
        elif way == "run":
            arguments = ["run", "--mode", "auto-edit", "--no-sandbox", "count on"]
            finish = "<commit-message>Count on</commit-message>\n<finish>counted</finish>"
            stdin, env = "", self.replies('<read path="a.txt"/>', self.diff("a.txt"), finish)
        elif way == "join":
            for part in sorted((run / ".repoagent/splits/d.md").glob("0*.md")):
                text = part.read_text()
                part.write_text(re.sub(r"target: (\d+)", lambda n: f"target: {int(n[1]) + 1}", text))
            arguments, stdin, env = ["split", "--join", ".repoagent/splits/d.md"], "", {}
        else:
            arguments, stdin, env = [way], "", {}
        if way == "killed":
            running = program.start(arguments, run, stdin=stdin.encode(), env=env)
            time.sleep(self.chance.uniform(0.2, 1.5))
            os.kill(running.pid, self.chance.choice([2, 9, 15]))
            out, err = running.communicate()
            time.sleep(0.5)
            later = program.run(["undo"], run)  # which first completes or reverts the killed one
            self.done[f"killed: {later.returncode}"] = self.done.get(f"killed: {later.returncode}", 0) + 1
            return (out + err + later.stdout + later.stderr).decode(errors="replace")
        done = program.run(arguments, run, stdin=stdin.encode(), env=env)
        self.done[f"{way}: {done.returncode}"] = self.done.get(f"{way}: {done.returncode}", 0) + 1
        return (done.stdout + done.stderr).decode(errors="replace")

    @contextmanager
    def alone(self) -> Iterator[None]:
        with self.log.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def look(self, said: str, what: str) -> None:
        """Record lost saves; `said` is the output since the last check, `what` the name of the step."""
        for name in re.findall(r"(?:/|\.?\b[\w.-]*)[\w./-]+", said):
            file = self.repo.top / name.rstrip(".")
            if file.is_file():
                self.safe |= tokens(file.read_bytes())
        with self.alone():
            for line in self.repo.git("stash", "list", "--format=%H").split():
                for path in FILES:  # saves that a hook stashed and did not restore
                    self.safe |= tokens(self.repo.git("show", f"{line}:{path}", ok=False).encode())
            self.repo.git("stash", "clear")
            entries = [json.loads(line) for line in self.log.read_text().splitlines()]
            for entry in entries[self.read :]:
                key = entry["file"], entry["slot"]
                self.expect(key, entry["seen"], what)
                self.last[key] = entry["token"]
            self.saves += len(entries) - self.read
            self.read = len(entries)
            for key in list(self.last):
                file = self.repo.top / key[0]
                self.expect(key, slot(file.read_bytes(), key[1]) if file.exists() else None, what)

    def expect(self, key: tuple[str, str], seen: str | None, what: str) -> None:
        before = self.last.get(key, "none")
        if before not in (seen, "none") and before not in self.safe:
            self.lost.append(f"{what}: {before} of {key}, there is {seen}")
            self.safe.add(before)
        if seen is not None:
            self.last[key] = seen


def tokens(data: bytes) -> set[str]:
    return {token.decode() for token in re.findall(rb"T\d+x\d+", data)}


def test_no_save_is_lost(repo: GitRepo, tmp_path: Path) -> None:
    chance = random.Random(SEED)
    it = Field(repo, tmp_path, chance)
    repo.commit("begin", **{"a.txt": BODY, "b.txt": BODY, "c.txt": BODY, "d.md": PARTS, ".gitignore": "*~\n"})
    assert program.run(["split", "d.md", "--target-bytes", "120"], repo.top).returncode == 0
    saver = subprocess.Popen(
        [sys.executable, "-m", "tests.crash.saver", str(repo.top), str(it.log), str(SEED)], cwd=ROOT
    )
    try:
        while not it.log.exists():
            time.sleep(0.05)
        while it.saves < SAVES:
            way, name = chance.choice(WAYS), chance.choice(list(HOOKS))
            if (script := HOOKS[name]) is not None:
                busy, lock = it.log.with_suffix(".busy"), it.log.with_suffix(".lock")
                locked = f'locked() {{ flock {lock} "$@"; }}'
                repo.hook("pre-commit", f"trap 'rm -f {busy}' EXIT\ntouch {busy}\n{locked}\n{script}\n")
            else:
                (repo.top / ".git/hooks/pre-commit").unlink(missing_ok=True)
            it.log.with_suffix(".near").unlink(missing_ok=True)
            if chance.random() < 0.15:  # saves next to the edited lines, which make undo refuse
                it.log.with_suffix(".near").touch()
            said = it.act(way)
            it.log.with_suffix(".busy").unlink(missing_ok=True)
            assert "Traceback" not in said, said
            print(f"--- {way}, hook {name}\n{said}")
            it.look(said, f"{way}, hook {name}")
            if it.lost:
                break
            if chance.random() < 0.7:
                with it.alone():
                    repo.git("commit", "-qam", "all of it", "--no-verify", ok=False)
    finally:
        it.log.with_suffix(".stop").touch()
        saver.wait(20)
    print(f"seed {SEED}: {it.saves} saves, {len(it.safe)} of them kept elsewhere; {it.done}")
    assert not it.lost, (SEED, it.lost, said)
