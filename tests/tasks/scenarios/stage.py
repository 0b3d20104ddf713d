"""Run a task on a stage: a repository, a model behind the Messages API and a user; and check the invariants after
it."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from repoagent.config.layers import load
from repoagent.edit.model_setup import model_setup
from repoagent.edit.undo import undo
from repoagent.git.worktree import layout, open_worktree
from repoagent.llm.conversation import read
from repoagent.llm.usage import Limits
from repoagent.tasks.run_context import RunRequest
from repoagent.tasks.session import RunOutcome, run
from tests.conftest import GitRepo
from tests.llm.providers.messages_server import KEY, Behaviour, Received, Server
from tests.tasks.bare import NAME, User
from tests.tasks.scenarios.sight import Rule, actions, answer

MODEL = "anthropic/claude-sonnet-5-5"
OURS = (".git", ".repoagent")


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
            if name.parts[0] not in OURS and (path.is_symlink() or path.is_file()):
                data = str(path.readlink()).encode() if path.is_symlink() else path.read_bytes()
                files[str(name)] = (path.lstat().st_mode, data)
        return cls(
            files, repo.git("ls-files", "-s"), repo.head(), repo.git("symbolic-ref", "-q", "HEAD", ok=False)
        )

    def differs(self, other: Look) -> list[str]:
        names = {*self.files, *other.files}
        return sorted(name for name in names if self.files.get(name) != other.files.get(name))


@dataclass
class Stage:
    """A repository with a model; `at` maps the number of a call (from 1) to what happens before its answer."""

    repo: GitRepo
    server: Server | None = None
    rule: Rule = lambda see: "<reject>no rule</reject>"
    at: dict[int, Callable[[], object]] = field(default_factory=dict)
    replies: list[str] = field(default_factory=list)
    behave: Callable[[Received, str], str | Behaviour] | None = None
    before: Look | None = None
    name: str = NAME

    def script(self, received: Received) -> str | Behaviour:
        self.at.get(len(self.replies) + 1, lambda: None)()
        reply = answer(self.rule, received)
        self.replies.append(reply)
        return self.behave(received, reply) if self.behave else reply

    def go(
        self,
        rule: Rule,
        prompt: str = "",
        *,
        user: User | None = None,
        limits: Limits | None = None,
        config: Mapping[str, object] | None = None,
        name: str | None = None,
        top: Path | None = None,
        **wishes: object,
    ) -> RunOutcome:
        """Run once with the real API client, answered by `rule`."""
        self.rule = rule
        self.before = self.before or Look.at(self.repo)
        worktree = open_worktree(top or self.repo.top)
        settings = load(layout(worktree), flags={"model": MODEL, **(config or {})})
        ready = model_setup(settings, limits=limits or Limits(turns=40))
        request = RunRequest(prompt, **{"name": name or self.name, "mode": "auto-edit", **wishes})  # type: ignore[arg-type]
        return run(worktree, request, settings, user or User(), ready)

    # invariants

    def file(self, *parts: str) -> Path:
        return self.repo.top.joinpath(".repoagent", *parts)

    def record(self, name: str | None = None) -> dict[str, object]:
        found: dict[str, object] = json.loads(self.file("runs", name or self.name, "run.json").read_text())
        return found

    def sound(self, state: str = "done", *, name: str | None = None, audited: bool = True) -> None:
        """Check that the repository is healthy, no temporary files are left, and the records are true and contain no
        key."""
        name = name or self.name
        checked = subprocess.run(
            ["git", "fsck", "--strict", "--no-dangling"], cwd=self.repo.top, capture_output=True, check=False
        )
        assert (checked.returncode, checked.stdout) == (0, b""), checked
        git = Path(self.repo.git("rev-parse", "--absolute-git-dir").strip())
        assert not [*git.rglob("*.lock")], [*git.rglob("*.lock")]
        assert not [*(git / "repoagent").glob("journal/*")]
        conversation = read(self.file("conversations", f"{name}.md"))
        assert conversation is not None
        record = self.record(name)
        assert record["state"] == state, record
        for commit in record["commits"]:  # type: ignore[attr-defined]
            self.repo.git("merge-base", "--is-ancestor", commit, "HEAD")
        if audited:
            self._audited(conversation.turns, name)
        places = [self.repo.top / ".repoagent", git / "repoagent"]
        for path in (path for place in places for path in place.rglob("*") if path.is_file()):
            assert KEY.encode() not in path.read_bytes(), path
        assert KEY not in self.repo.git("log", "--format=%B")

    def _audited(self, turns: Iterable[object], name: str) -> None:
        """Check that the audit has a line for each command that ran and each written file."""
        lines = [json.loads(line) for line in self._audit()]
        mine = [line for line in lines if line.get("run") == name]
        seen = [(turn.meta.get("kind"), turn.text) for turn in turns if turn.role == "observation"]  # type: ignore[attr-defined]
        ran = [text for kind, text in seen if kind == "run" and re.match(r"exit \d", text)]
        kept = [line for line in mine if line["kind"] == "command" and "exit" in line]
        assert len(kept) >= len(ran), (ran, kept)
        applied = [text for kind, text in seen if kind == "edit" and text.startswith("Applied")]
        written = {line["path"] for line in mine if line["kind"] == "write"}
        for text in applied:
            for path in re.findall(r"(?:Applied: |[,;] )([\w./-]+\.\w+):\d", text.splitlines()[0]):
                assert path in written, (path, written)

    def _audit(self) -> list[str]:
        file = self.file("audit.jsonl")
        return file.read_text().splitlines() if file.exists() else []

    def committed(self, *paths: str) -> None:
        """Check that the last commit has exactly these paths, follows the previous tip, and matches the record."""
        assert self.before is not None
        names = self.repo.git("diff-tree", "-r", "--name-only", "--no-commit-id", "HEAD").split("\n")[:-1]
        assert sorted(names) == sorted(paths)
        assert self.repo.git("rev-parse", "HEAD^").strip() == self.before.head
        assert self.record()["commits"] == [self.repo.head()]

    def undone(self, also: Callable[[], object] = lambda: None) -> None:
        """Check that `undo` restores the previous bytes; `also` applies the user's changes since."""
        assert self.before is not None
        undo(open_worktree(self.repo.top))
        now = Look.at(self.repo)
        assert now.differs(self.before) == []
        assert (now.index, now.head, now.branch) == (self.before.index, self.before.head, self.before.branch)

    def whole(self, *paths: str) -> None:
        """Check a successful task: sound, its commit contains only its own changes, and it can be undone."""
        self.sound()
        self.committed(*paths)
        self.undone()

    @property
    def last_prompt(self) -> str:
        """The full text of the last request."""
        assert self.server is not None
        return self.server.requests[-1].text

    def kinds(self) -> list[str]:
        """The actions of all replies, in order."""
        return [one.kind for reply in self.replies for one in actions(reply)]
