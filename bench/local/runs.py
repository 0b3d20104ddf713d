"""One run: a task in a throw-away repository, done by the program or by the baseline, and judged.

The baseline is what one does with a chat window: the files go in, the whole new files come out and are pasted.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from bench.local.tasks import Task, Verdict, environment, tree
from repoagent.config.layers import load
from repoagent.errors import Exit, RepoagentError
from repoagent.llm.complete import complete
from repoagent.llm.conversation import read
from repoagent.llm.model import Message, Part, Request
from repoagent.llm.open_model import open_model
from repoagent.llm.usage import Meter

_FENCE = re.compile(r"^(`{3,})[^`\n]*\n(.*?)^\1[ \t]*$", re.MULTILINE | re.DOTALL)


def question(task: Task) -> str:
    """The files in fences, then what is wanted."""
    shown = "".join(
        f"{path}:\n```{PurePosixPath(path).suffix[1:]}\n{_text(task, path)}\n```\n\n" for path in task.files
    )
    what = "the whole new file" if len(task.files) == 1 else "the whole new files, each in its own code block"
    return f"{shown}{task.instruction}\n\nGive me {what}."


def pasted(task: Task, answer: str) -> dict[str, bytes]:
    """What is then in the files. The block for a single file is the longest one; several are taken in their order.
    An editor keeps the line endings of a file, and whether it ends in one."""
    blocks = [match[2] for match in _FENCE.finditer(answer.replace("\r\n", "\n"))]
    if len(task.files) == 1 and blocks:
        blocks = [max(blocks, key=len)]
    if len(blocks) != len(task.files):
        return {}
    found = {}
    for path, block in zip(task.files, blocks, strict=True):
        old = task.source[path]
        text = block.rstrip("\n") + ("\n" if old.endswith(b"\n") else "")
        found[path] = text.replace("\n", "\r\n" if b"\r\n" in old else "\n").encode()
    return found


def _text(task: Task, path: str) -> str:
    return task.source[path].decode().replace("\r\n", "\n").rstrip("\n")


PASTE = "paste"  # the baseline
OUTCOMES = ("solved", "refused", "failed", "wrong", "damaged", "error")
_EXITS = dict.fromkeys((Exit.NOTHING, Exit.REFUSED, Exit.NO_MODEL, Exit.LIMIT), "refused")
_EXITS[Exit.CHECK_FAILED] = "failed"
# what a model may need; nothing of the user's own configuration
_OURS = ("ANTHROPIC_", "OPENAI_", "REPOAGENT_", "OMP_")


@dataclass(frozen=True)
class Case:
    task: str
    format: str
    loop: bool

    @property
    def name(self) -> str:
        return f"{self.task}-{self.format}" + ("-loop" if self.loop else "")


@dataclass(frozen=True)
class Result:
    """`outcome` is one of OUTCOMES: solved; refused (nothing was committed); failed (the check never passed, nothing
    was changed); wrong (committed, and the judge says no); damaged (something changed that the task has nothing
    to do with); error (wrong usage, an error in repoagent, no end in time). Tokens are those of all calls."""

    task: str
    format: str
    loop: bool
    language: str
    lines: int
    outcome: str
    exit: int
    calls: int
    tokens_in: int
    tokens_out: int
    seconds: float
    note: str
    model: str

    @property
    def case(self) -> Case:
        return Case(self.task, self.format, self.loop)

    def line(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False) + "\n"


def run(task: Task, case: Case, model: str, *, turns: int, seconds: float, kept: Path) -> Result:
    """Do it once. What was said and changed is left in a folder of `kept`."""
    with tempfile.TemporaryDirectory(prefix="bench-local-") as folder:
        top = Path(folder, "home", task.name)
        task.place(top)
        env = _environment(top.parent, task)
        _make_repository(top, env)
        started = time.monotonic()
        try:
            if case.format == PASTE:
                result = _by_paste(task, case, model, top)
            else:
                result = _by_edit(task, case, model, top, env, turns=turns, seconds=seconds)
        finally:
            _keep(top, kept / case.name, env)
        return Result(
            case.task, case.format, case.loop, task.language, task.lines,
            seconds=round(time.monotonic() - started, 1), model=model, **result,
        )  # fmt: skip


def _by_edit(
    task: Task, case: Case, model: str, top: Path, env: Mapping[str, str], *, turns: int, seconds: float
) -> dict[str, Any]:
    command = [sys.executable, "-m", "repoagent", "edit", *task.files, task.instruction]
    command += ["--yes", "--json", "--model", model]
    command += ["--format", case.format] if case.format != "auto" else []
    if case.format in ("diff", "search"):  # elsewhere repoagent knows itself how long a reply can be
        env = {**env, "REPOAGENT_MAX_OUTPUT_TOKENS": str(task.output_tokens)}
    calls = (turns if case.loop else 1) * len(task.files)  # a small model is asked for each file on its own
    command += ["--max-turns", str(calls), *(["--check", task.check] if case.loop else [])]
    try:
        done = subprocess.run(
            command, cwd=top, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=seconds, check=False,
        )  # fmt: skip
        code, said, told = done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired:
        code, said, told = -1, "", f"not done after {seconds:.0f} s"
    (top / ".repoagent").mkdir(exist_ok=True)
    (top / ".repoagent" / "printed.txt").write_text(f"{said}\n{told}\nexit {code}\n")
    calls, tokens_in, tokens_out = _used(top)
    if code == 0:
        verdict = task.judge(top)
    else:
        verdict = Verdict(
            _EXITS.get(Exit(code), "error") if code in list(Exit) else "error", _message(said) or told[-200:]
        )
        if tree(top) != task.source:
            verdict = Verdict("damaged", f"exit {code}, and the files are not as they were")
    used = {"calls": calls, "tokens_in": tokens_in, "tokens_out": tokens_out}
    return {"outcome": verdict.outcome, "note": verdict.note, "exit": code, **used}


def _by_paste(task: Task, case: Case, model: str, top: Path) -> dict[str, Any]:
    """The baseline: one question in a chat, and what stands in the fences of the answer is written to the files."""
    asked = question(task)
    request = Request((), (Message("user", (Part(asked),)),), task.output_tokens)
    try:
        reply = complete(open_model(load(None, flags={"model": model})), request, Meter())
    except RepoagentError as error:
        failed = {"outcome": "error", "note": str(error)[:200], "exit": int(error.exit_code)}
        return failed | {"calls": 0, "tokens_in": 0, "tokens_out": 0}
    (top / ".repoagent").mkdir(exist_ok=True)
    (top / ".repoagent" / "conversation.md").write_text(f"{asked}\n\n=== answer ===\n\n{reply.text}\n")
    files = pasted(task, reply.text)
    for path, data in files.items():
        (top / path).write_bytes(data)
    verdict = task.judge(top) if files else Verdict("refused", "no fenced answer for each of the files")
    usage = reply.usage
    used = {"calls": 1, "tokens_in": usage.total - usage.output, "tokens_out": usage.output}
    return {"outcome": verdict.outcome, "note": verdict.note, "exit": 0, **used}


def _used(top: Path) -> tuple[int, int, int]:
    """Calls, tokens in and tokens out, by what the conversations say; that of an edit of two files is kept twice."""
    seen: dict[tuple[str, str], str] = {}
    for path in sorted((top / ".repoagent").rglob("*.md")):
        try:
            conversation = read(path)
        except RepoagentError:
            continue
        for turn in conversation.turns if conversation else ():
            if turn.role == "assistant" and "tokens" in turn.meta:
                seen[turn.meta.get("time", ""), turn.text] = turn.meta["tokens"]
    calls = [pair for tokens in seen.values() for pair in re.findall(r"(\d+)\+(\d+)", tokens)]
    return len(calls), sum(int(read) for read, _ in calls), sum(int(written) for _, written in calls)


def _message(said: str) -> str:
    try:
        return str(json.loads(said)["error"]["message"])[:300]
    except (ValueError, KeyError, TypeError):
        return ""


def _make_repository(top: Path, env: Mapping[str, str]) -> None:
    (top.parent / ".gitconfig").write_text(
        "[user]\n\tname = Bench\n\temail = bench@example.com\n[init]\n\tdefaultBranch = main\n"
    )
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "The state of things"]):
        subprocess.run(["git", *command], cwd=top, env=env, check=True, capture_output=True)


def _environment(home: Path, task: Task) -> dict[str, str]:
    names = [
        name for name in os.environ if name.startswith(_OURS) or name in ("LANG", "TMPDIR", "PYTHONPATH")
    ]
    kept = {name: os.environ[name] for name in names} | {"PATH": environment()["PATH"], "HOME": str(home)}
    git = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CEILING_DIRECTORIES": str(home)}
    return kept | git | {"PYTHONDONTWRITEBYTECODE": "1"}


def _keep(top: Path, folder: Path, env: Mapping[str, str]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if (top / ".repoagent").exists():
        shutil.copytree(top / ".repoagent", folder / "repoagent")

    def git(*args: str) -> bytes:
        return subprocess.run(["git", *args], cwd=top, env=env, capture_output=True, check=False).stdout

    first = git("rev-list", "--max-parents=0", "HEAD").decode().strip()
    (folder / "result.diff").write_bytes(git("diff", first))
