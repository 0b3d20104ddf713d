"""A program as a model: the prompt on its standard input, the reply on its standard output."""

from __future__ import annotations

import codecs
import contextlib
import os
import re
import shutil
import subprocess
import tempfile
from typing import TYPE_CHECKING, ClassVar

from repoagent.dataclass import dataclass
from repoagent.display_text import redact
from repoagent.errors import ModelError
from repoagent.git.process import start_program
from repoagent.llm.media import refuse_any
from repoagent.llm.model import Model, OnText, Reply, Request, Usage, render_request
from repoagent.llm.providers import command_agents as agents
from repoagent.llm.registry import Backend, ModelOptions, ModelStatus
from repoagent.llm.usage import estimate_tokens

if TYPE_CHECKING:
    from repoagent.config.settings import Settings

LONGEST_OUTPUT = 20_000_000  # bytes
_DEPTH = "_REPOAGENT_DEPTH"  # number of repoagent processes that this one runs inside
_DEEPEST = 3
_LINGER = 10.0  # seconds
_SILENCE = 0.5  # seconds to wait for output of background processes after the program ended
_CANNOT_RUN, _NOT_FOUND = 126, 127  # exit codes of every shell
_SHOWN = 400  # characters of a program's message
_LOGIN = re.compile(r"(?i)log ?in\b|logged (?:in|out)|api.?key|unauthori[sz]ed|authenticat|\b401\b")


@dataclass(frozen=True)
class CommandModel:
    """A model that runs `command` in a shell.

    A known agent is restricted to answering (see `command_agents`) and runs in an empty folder, so that no file in a
    repository can instruct it. Any other command runs unchanged in the current folder.
    """

    command: str
    timeout: float = 600.0  # seconds

    takes: ClassVar[frozenset[str]] = frozenset()
    context_tokens: ClassVar[int | None] = None

    @property
    def spec(self) -> str:
        return f"command:{self.command}"

    def complete(self, request: Request, on_text: OnText) -> Reply:
        """Make one attempt; see `llm.model.Model`. Never leaves a process behind.

        Raises UsageError if an image or PDF is attached.
        """
        refuse_any(request, f"command:{agents.masked_command(self.command)}")
        prompt = render_request(request)
        agent = agents.known_agent(self.command)
        reader = agents.OutputReader(agent.handler if agent else None)
        shown = False
        with contextlib.ExitStack() as stack:
            errors = stack.enter_context(tempfile.TemporaryFile())
            empty = tempfile.TemporaryDirectory(prefix="repoagent-") if agent else contextlib.nullcontext(".")
            folder = stack.enter_context(empty)
            with start_program(
                agents.full_command(self.command),
                lambda why: ModelError(f"cannot run `{agents.masked_command(self.command)}`: {why}"),
                cwd=folder, env=_environment(agent), stdin=prompt.encode(), stderr=errors,
                seconds=self.timeout, most=LONGEST_OUTPUT,
            ) as program:  # fmt: skip
                for text in reader.texts(codecs.iterdecode(program.output(_SILENCE), "utf-8", "replace")):
                    shown = True
                    on_text(text)
                try:
                    code = program.process.wait(_LINGER)
                except subprocess.TimeoutExpired:  # it has closed its output: the reply is complete
                    code = 0
            errors.seek(0)
            stderr = errors.read().decode(errors="replace")
        reply = reader.reply()
        if program.ended or code or reply.error or not reply.text.strip():
            raise _failure(self, program.ended, code, reply, stderr)
        if not shown:
            on_text(reply.text)
        estimated = Usage(estimate_tokens(prompt), estimate_tokens(reply.text), estimated=True)
        name = f"{self.spec} ({reply.model})" if reply.model else self.spec
        return Reply(reply.text, reply.stop, reply.usage or estimated, name)


def _environment(agent: agents.CodingAgent | None) -> dict[str, str]:
    """The inherited environment; for an agent, without variables that refer to the repository. Raises ModelError if
    repoagent calls itself."""
    depth = os.environ.get(_DEPTH, "")
    level = int(depth) if depth.isdecimal() else 0
    if level >= _DEEPEST:
        raise ModelError(
            f"repoagent is calling itself through a `command:` model, {level} levels deep: use a program that "
            "does not run repoagent"
        )
    drops = {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", *agent.drops} if agent else set()
    return {name: value for name, value in os.environ.items() if name not in drops} | {_DEPTH: str(level + 1)}


def _failure(
    model: CommandModel, ended: str, code: int, reply: agents.ProgramReply, stderr: str
) -> ModelError:
    """The error for a program that gave no reply. `ended` is the limit for which it was killed, if any; `code` is its
    exit code."""
    name = f"`{agents.masked_command(model.command)}`"
    if ended == "late":
        advice = "raise `timeout` in the configuration"
        return ModelError(f"{name} did not finish in {model.timeout:g} s and was stopped: {advice}")
    if ended:
        size = f"{LONGEST_OUTPUT // 1_000_000} MB"
        return ModelError(f"{name} printed more than {size} and was stopped: check what it prints")
    lines = agents.plain_text(stderr).strip() or (reply.text.strip() if code else "")
    words = redact(" ".join((reply.error or lines).split()), {})
    words = words if len(words) <= _SHOWN else f"…{words[-_SHOWN:]}"
    shown = f": {words}" if words else ""
    agent = agents.known_agent(model.command)
    if code in (_CANNOT_RUN, _NOT_FOUND):
        advice = f"to install it: {agent.install}" if agent else "check --model command:..."
        return ModelError(f"cannot run {name}{shown}; {advice}")
    if not reply.known and not code:
        return ModelError(f"{name} printed output in an unknown format: update the program")
    how = "" if reply.error else f" with signal {-code}" if code < 0 else f" with exit code {code}"
    failure = f"failed{how}" if code or reply.error else "printed no reply"
    login = f"; {agent.login}" if agent and _LOGIN.search(words) else ""
    return ModelError(f"{name} {failure}{shown}{login}")


class CommandBackend(Backend):
    """The backend that runs programs on this machine."""

    def open_model(self, model: str, options: ModelOptions) -> Model:
        return CommandModel(model, options.seconds)

    def check(self, settings: Settings, model: str, *, online: bool = True) -> ModelStatus:
        words = agents.simple_words(model)
        if words and shutil.which(words[0]) is None:
            return ModelStatus(problem=f"no program {words[0]} on PATH")
        where = ", in an empty folder" if agents.known_agent(model) else ""
        line = agents.full_command(model)
        return ModelStatus(runs=agents.masked_command(line) + where if line != model else "")

    def display_name(self, model: str) -> str:
        return agents.masked_command(model)
