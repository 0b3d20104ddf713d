"""Run a task in a temporary repository, with repoagent or the baseline, and judge the result.

The baseline works as one does with a chat window: the files go in, and the new files in the answer are pasted.
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
from repoagent.config.layers import load_settings
from repoagent.errors import Exit, RepoagentError
from repoagent.llm.complete import complete
from repoagent.llm.conversation import read_conversation
from repoagent.llm.model import Message, Part, Request
from repoagent.llm.open_model import open_model
from repoagent.llm.usage import Meter

_FENCE = re.compile(r"^(`{3,})[^`\n]*\n(.*?)^\1[ \t]*$", re.MULTILINE | re.DOTALL)


def question(task: Task) -> str:
    """Return the prompt of the baseline: the files in fences, then the instruction."""
    shown = "".join(
        f"{path}:\n```{PurePosixPath(path).suffix[1:]}\n{_text(task, path)}\n```\n\n" for path in task.files
    )
    form = "the whole new file" if len(task.files) == 1 else "the whole new files, each in its own code block"
    return f"{shown}{task.instruction}\n\nGive me {form}."


def pasted(task: Task, answer: str) -> dict[str, bytes]:
    """Return the new content of the files by path, or {} unless `answer` has a code block for each. A single file gets
    the longest block, several get theirs in order. As in an editor, line endings stay, also if the last is missing."""
    blocks = [match[2] for match in _FENCE.finditer(answer.replace("\r\n", "\n"))]
    if len(task.files) == 1 and blocks:
        blocks = [max(blocks, key=len)]
    if len(blocks) != len(task.files):
        return {}
    contents = {}
    for path, block in zip(task.files, blocks, strict=True):
        old = task.source[path]
        text = block.rstrip("\n") + ("\n" if old.endswith(b"\n") else "")
        contents[path] = text.replace("\n", "\r\n" if b"\r\n" in old else "\n").encode()
    return contents


def _text(task: Task, path: str) -> str:
    return task.source[path].decode().replace("\r\n", "\n").rstrip("\n")


PASTE = "paste"  # the baseline
OUTCOMES = ("solved", "refused", "failed", "wrong", "damaged", "error")
_EXITS = dict.fromkeys((Exit.NOTHING, Exit.REFUSED, Exit.NO_MODEL, Exit.LIMIT), "refused")
_EXITS[Exit.CHECK_FAILED] = "failed"
# prefixes of the variables that reach a run: what a model may need, and nothing else of the user's configuration
_PASSED = ("ANTHROPIC_", "OPENAI_", "REPOAGENT_", "OMP_")


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
    changed); wrong (committed, but rejected by the judge); damaged (something outside the task changed); error (wrong
    usage, an error in repoagent, a timeout). Tokens are those of all calls."""

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


def run(task: Task, case: Case, model: str, *, turns: int, seconds: float, records: Path) -> Result:
    """Run `case` once and judge it. Its conversations and its diff are saved in a folder of `records`."""
    with tempfile.TemporaryDirectory(prefix="bench-local-") as folder:
        top = Path(folder, "home", task.name)
        task.write(top)
        env = _environment(top.parent, task)
        _make_repository(top, env)
        started = time.monotonic()
        try:
            if case.format == PASTE:
                result = _by_paste(task, case, model, top)
            else:
                result = _by_edit(task, case, model, top, env, turns=turns, seconds=seconds)
        finally:
            _save(top, records / case.name, env)
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
    if case.format in ("diff", "search"):  # repoagent sets the length of other replies itself
        env = {**env, "REPOAGENT_MAX_OUTPUT_TOKENS": str(task.output_tokens)}
    calls = (turns if case.loop else 1) * len(task.files)  # a small model gets a call for each file
    command += ["--max-turns", str(calls), *(["--check", task.check] if case.loop else [])]
    try:
        done = subprocess.run(
            command, cwd=top, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=seconds, check=False,
        )  # fmt: skip
        code, out, err = done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired:
        code, out, err = -1, "", f"not done after {seconds:.0f} s"
    (top / ".repoagent").mkdir(exist_ok=True)
    (top / ".repoagent" / "printed.txt").write_text(f"{out}\n{err}\nexit {code}\n")
    calls, tokens_in, tokens_out = _used(top)
    if code == 0:
        verdict = task.judge(top)
    else:
        verdict = Verdict(
            _EXITS.get(Exit(code), "error") if code in list(Exit) else "error", _message(out) or err[-200:]
        )
        if tree(top) != task.source:
            verdict = Verdict("damaged", f"exit {code}, but files were changed")
    used = {"calls": calls, "tokens_in": tokens_in, "tokens_out": tokens_out}
    return {"outcome": verdict.outcome, "note": verdict.note, "exit": code, **used}


def _by_paste(task: Task, case: Case, model: str, top: Path) -> dict[str, Any]:
    """Do the task by the baseline: ask once and write the code blocks of the answer to the files."""
    prompt = question(task)
    request = Request((), (Message("user", (Part(prompt),)),), task.output_tokens)
    try:
        reply = complete(open_model(load_settings(None, flags={"model": model})), request, Meter())
    except RepoagentError as error:
        failed = {"outcome": "error", "note": str(error)[:200], "exit": int(error.exit_code)}
        return failed | {"calls": 0, "tokens_in": 0, "tokens_out": 0}
    (top / ".repoagent").mkdir(exist_ok=True)
    (top / ".repoagent" / "conversation.md").write_text(f"{prompt}\n\n=== answer ===\n\n{reply.text}\n")
    files = pasted(task, reply.text)
    for path, data in files.items():
        (top / path).write_bytes(data)
    verdict = task.judge(top) if files else Verdict("refused", "not one code block for each file")
    usage = reply.usage
    used = {"calls": 1, "tokens_in": usage.total - usage.output, "tokens_out": usage.output}
    return {"outcome": verdict.outcome, "note": verdict.note, "exit": 0, **used}


def _used(top: Path) -> tuple[int, int, int]:
    """Count calls, input and output tokens in the saved conversations; that of an edit of two files is saved twice."""
    seen: dict[tuple[str, str], str] = {}
    for path in sorted((top / ".repoagent").rglob("*.md")):
        try:
            conversation = read_conversation(path)
        except RepoagentError:
            continue
        for turn in conversation.turns if conversation else ():
            if turn.role == "assistant" and "tokens" in turn.meta:
                seen[turn.meta.get("time", ""), turn.text] = turn.meta["tokens"]
    calls = [pair for tokens in seen.values() for pair in re.findall(r"(\d+)\+(\d+)", tokens)]
    return len(calls), sum(int(read) for read, _ in calls), sum(int(written) for _, written in calls)


def _message(out: str) -> str:
    try:
        return str(json.loads(out)["error"]["message"])[:300]
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
        name for name in os.environ if name.startswith(_PASSED) or name in ("LANG", "TMPDIR", "PYTHONPATH")
    ]
    own = {"PATH": environment()["PATH"], "HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1"}
    git = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CEILING_DIRECTORIES": str(home)}
    return {name: os.environ[name] for name in names} | own | git


def _save(top: Path, folder: Path, env: Mapping[str, str]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if (top / ".repoagent").exists():
        shutil.copytree(top / ".repoagent", folder / "repoagent")

    def git(*args: str) -> bytes:
        return subprocess.run(["git", *args], cwd=top, env=env, capture_output=True, check=False).stdout

    first = git("rev-list", "--max-parents=0", "HEAD").decode().strip()
    (folder / "result.diff").write_bytes(git("diff", first))
