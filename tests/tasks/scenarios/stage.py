"""Run a task with a repository, a scripted model behind a Messages API and a user, and check what must then hold."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from repoagent.config.layers import load_settings
from repoagent.edit.model_setup import model_setup
from repoagent.edit.undo import undo
from repoagent.git.worktree import layout_of, open_worktree
from repoagent.llm.conversation import read_conversation
from repoagent.llm.usage import Limits
from repoagent.tasks.run_context import RunOutcome, RunRequest
from repoagent.tasks.session import run_task
from tests.conftest import GitRepo
from tests.llm.providers.messages_server import KEY, Behaviour, Received, Server
from tests.tasks.bare import NAME, User

MODEL = "anthropic/claude-sonnet-5-5"
CHECK = "python3 -S tests/run.py"
PYTHON = {
    "README.md": "# convert\n\nConverts units.\n\n## Options\n\n- `--digits N` rounds.\n",
    "CONTRIBUTING.md": "# Contributing\n\nRun `make check` before you commit.\n",
    "Makefile": f"check:\n\t{CHECK}\n",
    "convert/__init__.py": '"""Converts units."""\n',
    "convert/rounding.py": (
        '"""Rounding."""\n\n\ndef rounded(value, digits):\n    """`value` as text."""\n    if digits == 0:\n'
        '        return str(value)\n    return f"{value:.{digits}f}"\n'
    ),
    "convert/table.py": "UNITS = {}\n\n\ndef register(one, other, factor):\n    UNITS[one, other] = factor\n",
    "tests/run.py": (
        "import pathlib, sys, traceback\nsys.dont_write_bytecode = True\n"
        "here = pathlib.Path(__file__).parent\nsys.path[:0] = [str(here.parent), str(here)]\n"
        "import test_rounding\nfailed = 0\nfor name in sorted(vars(test_rounding)):\n    if name.startswith('test_'):\n"
        "        try:\n            getattr(test_rounding, name)()\n        except Exception:\n            failed += 1\n"
        "            print(f'FAILED tests/test_rounding.py::{name}')\n            traceback.print_exc(file=sys.stdout)\n"
        "print('ok' if not failed else f'{failed} failed')\nsys.exit(bool(failed))\n"
    ),
    "tests/test_rounding.py": (
        "from convert.rounding import rounded\n\n\ndef test_two_digits():\n    assert rounded(3.14159, 2) == '3.14'\n"
        "\n\ndef test_no_digits():\n    assert rounded(2.6, 0) == '3', rounded(2.6, 0)\n"
    ),
    "docs/mass.md": "# Mass\n\nOne kilogram is 2.204623 pounds.\n",
}

Reply = str | Callable[[Received], str]


def change(path: str, old: str, new: str) -> str:
    """Return a patch that replaces one line, as a model writes it: without line numbers."""
    return f"```diff\n--- a/{path}\n+++ b/{path}\n@@\n-{old}\n+{new}\n```\n"


def finish(subject: str, text: str = "done") -> str:
    return f"<commit>\n{subject}\n</commit>\n<finish>{text}</finish>"


def seen(text: str, reply: str) -> Reply:
    """Return a reply that is `reply` if the last message matches the pattern `text`, and else rejects the task."""

    def answer(received: Received) -> str:
        last = received.turns[-1][1]
        return reply if re.search(text, last) else _lost(received)

    return answer


def _lost(received: Received) -> str:
    """The reply of a model that does not see what it expects: it rejects the task."""
    last = re.sub(r"observation-[0-9a-f]{8}|[<>]", "|", received.turns[-1][1])
    return f"<reject>unexpected: {last}</reject>"


FIX: tuple[Reply, ...] = (
    f"<run>{CHECK}</run>",
    seen("FAILED tests/test_rounding.py::test_no_digits", '<read path="convert/rounding.py"/>'),
    change("convert/rounding.py", "        return str(value)", "        return str(round(value))"),
    seen("Applied", f"<run>{CHECK}</run>"),
    seen(r"exit 0(.|\n)*\nok\n", finish("Round to a whole number", "the tests pass")),
)
BUMP: tuple[Reply, ...] = (
    '<read path="README.md"/>',
    change("README.md", "Converts units.", "Converts all units."),
    seen("Applied", finish("Say all")),
)


@dataclass(frozen=True)
class Look:
    """The state of a repository: the bytes of the work tree, the index, the branch and its tip."""

    files: dict[str, tuple[int, bytes]]
    index: str
    head: str
    branch: str

    @classmethod
    def at(cls, repo: GitRepo) -> Look:
        files = {}
        for path in sorted(repo.top.rglob("*")):
            name = path.relative_to(repo.top)
            if name.parts[0] not in (".git", ".repoagent") and (path.is_symlink() or path.is_file()):
                data = str(path.readlink()).encode() if path.is_symlink() else path.read_bytes()
                files[str(name)] = (path.lstat().st_mode, data)
        branch = repo.git("symbolic-ref", "-q", "HEAD", ok=False)
        return cls(files, repo.git("ls-files", "-s"), repo.head(), branch)


@dataclass
class Stage:
    """A repository and a model. The model gives reply N (from 0) to a conversation with N replies, so a repeated call
    gets the same reply. `at` maps the number of a call (from 1) to what happens before its reply."""

    repo: GitRepo
    server: Server | None = None
    replies: Iterable[Reply] = ()
    at: dict[int, Callable[[], object]] = field(default_factory=dict)
    sent: list[str] = field(default_factory=list)
    behave: Callable[[Received, str], str | Behaviour] | None = None
    before: Look | None = None
    name: str = NAME

    def script(self, received: Received) -> str | Behaviour:
        self.at.get(len(self.sent) + 1, lambda: None)()
        number = sum(role == "assistant" for role, _ in received.turns)
        reply = [*self.replies, _lost][number]
        reply = reply if isinstance(reply, str) else reply(received)
        self.sent.append(reply)
        return self.behave(received, reply) if self.behave else reply

    def go(
        self,
        *replies: Reply,
        prompt: str = "",
        user: User | None = None,
        limits: Limits | None = None,
        config: Mapping[str, object] | None = None,
        name: str | None = None,
        **wishes: object,
    ) -> RunOutcome:
        """Run once with the real API client. Without `replies`, the model has those of the last run."""
        self.replies = replies or self.replies
        self.before = self.before or Look.at(self.repo)
        worktree = open_worktree(self.repo.top)
        settings = load_settings(layout_of(worktree), flags={"model": MODEL, **(config or {})})
        ready = model_setup(settings, limits=limits or Limits(turns=40))
        request = RunRequest(prompt, **{"name": name or self.name, "mode": "auto-edit", **wishes})
        return run_task(worktree, request, settings, user or User(), ready)

    @property
    def requests(self) -> list[Received]:
        assert self.server is not None
        return self.server.requests

    # invariants

    def file(self, *parts: str) -> Path:
        return self.repo.top.joinpath(".repoagent", *parts)

    def record(self, name: str | None = None) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.file("runs", name or self.name, "run.json").read_text())
        return found

    def sound(self, state: str = "done", *, name: str | None = None) -> None:
        """Assert that the repository is healthy, that no locks or journals are left, and that the records are true and
        contain no key."""
        name = name or self.name
        fsck = ["git", "fsck", "--strict", "--no-dangling"]
        checked = subprocess.run(fsck, cwd=self.repo.top, capture_output=True, check=False)
        assert (checked.returncode, checked.stdout) == (0, b""), checked
        git = Path(self.repo.git("rev-parse", "--absolute-git-dir").strip())
        assert not [*git.rglob("*.lock"), *(git / "repoagent").glob("journal/*")]
        conversation = read_conversation(self.file("conversations", f"{name}.md"))
        assert conversation is not None
        record = self.record(name)
        assert record["state"] == state, record
        for commit in record["commits"]:
            self.repo.git("merge-base", "--is-ancestor", commit, "HEAD")
        # the audit has each command that ran and each written file
        lines = map(json.loads, self.file("audit.jsonl").read_text().splitlines())
        mine = [line for line in lines if line.get("run") == name]
        results = [turn for turn in conversation.turns if turn.role == "observation"]
        ran = [turn for turn in results if turn.meta["kind"] == "run" and re.match(r"exit \d", turn.text)]
        assert len([line for line in mine if line["kind"] == "command" and "exit" in line]) >= len(ran)
        written = {line["path"] for line in mine if line["kind"] == "write"}
        for turn in results:
            if turn.meta["kind"] == "edit" and turn.text.startswith("Applied"):
                first = turn.text.splitlines()[0]
                assert written.issuperset(re.findall(r"(?:Applied: |[,;] )([\w./-]+\.\w+):\d", first))
        for place in (self.repo.top / ".repoagent", git / "repoagent"):
            for path in place.rglob("*"):
                assert not path.is_file() or KEY.encode() not in path.read_bytes(), path
        assert KEY not in self.repo.git("log", "--format=%B")

    def committed(self, *paths: str) -> None:
        """Assert that the last commit has exactly these paths, follows the previous tip and is in the record."""
        assert self.before is not None
        names = self.repo.git("diff-tree", "-r", "--name-only", "--no-commit-id", "HEAD").split("\n")[:-1]
        assert sorted(names) == sorted(paths)
        assert self.repo.git("rev-parse", "HEAD^").strip() == self.before.head
        assert self.record()["commits"] == [self.repo.head()]

    def whole(self, *paths: str) -> None:
        """Assert that a task succeeded: it is `sound`, its commit has only `paths`, and `undo` restores the bytes."""
        self.sound()
        self.committed(*paths)
        undo(open_worktree(self.repo.top))
        assert Look.at(self.repo) == self.before

    def kinds(self) -> list[str]:
        """Return the names of the actions of all replies, in order; that of a patch is "edit"."""
        text = "\n".join(self.sent)
        return [
            "edit" if kind == "```diff" else kind[1:]
            for kind in re.findall(r"^(```diff|<[a-z]+)", text, re.MULTILINE)
            if kind != "<commit"
        ]
