"""The user's own programs: tools that describe themselves (`run.tools`), and the hook commands (`run.before_turn`,
`run.after_edit`, `run.before_finish`)."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path
from typing import Literal, NamedTuple

from repoagent.agent.actions import Action, Observation
from repoagent.agent.approvals.policy import ApprovalRequest, Verdict
from repoagent.agent.context_window.shorten_text import shorten
from repoagent.agent.parse_reply import DATA
from repoagent.agent.state import EDIT, OWN, Tool
from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.git.process import start_program
from repoagent.llm.model import fence, printable
from repoagent.storage import json_files
from repoagent.storage.layout import Warn
from repoagent.storage.secrets import mask, unmask, without_secrets
from repoagent.tasks.markdown_files import cut_at_word, one_line

VERSION = 1
PATIENCE = 10.0  # seconds for a description
TIMEOUT = 60.0  # seconds for a call, unless the description sets another
LONGEST_TIMEOUT = 3600.0
LONGEST = 500  # characters of a tool's line in the prompt, and of an action in a question to the user
LARGEST = 4_000_000  # bytes of output, after which a program is killed
HOOK_TIMEOUT = 300.0  # seconds
SHOWN = 8 * 1024  # bytes of the output of a hook
PATHS = 1000  # passed to a hook
NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_ARGUMENT = re.compile(r"(?!id\Z)[A-Za-z_][\w-]{0,39}")
# names with a meaning in a reply or in a prompt
_RESERVED = {
    EDIT, "observation", "user", "assistant", "system", "human", *DATA, *(tool.name for tool in OWN),
    "file", "content", "context", "matches", "output", "errors", "files", "skills", "agents", "agent",
}  # fmt: skip

Audit = Callable[[Mapping[str, object]], None]
Decide = Callable[[ApprovalRequest], Verdict]
Event = Literal["before_turn", "after_edit", "before_finish"]
EVENTS: tuple[Event, ...] = ("before_turn", "after_edit", "before_finish")


@dataclass(frozen=True)
class Ran:
    """The result of a program; its output contains no secrets of the environment. `ended` says why it was killed,
    worded as the end of a sentence, "" if it was not."""

    code: int
    output: str
    errors: str
    seconds: float
    ended: str = ""

    @property
    def ok(self) -> bool:
        return self.code == 0 and not self.ended

    @property
    def failure(self) -> str:
        """How the program failed, worded as the end of a sentence."""
        return self.ended or f"failed with exit code {self.code}"


def start(
    command: str | Sequence[str],
    *,
    top: Path,
    timeout: float,
    stdin: str = "",
    env: Mapping[str, str] = os.environ,
    together: bool = False,
) -> Ran:
    """Run `command` in `top`, by the shell if it is a string, for at most `timeout` seconds. `together` merges standard
    error into the output. All processes of the command are killed before this returns, even after ^C. Raises Refused if
    the command cannot be started."""
    started = time.monotonic()
    name = command if isinstance(command, str) else command[0]
    with start_program(
        command, lambda why: Refused(f"could not run {name} ({why})"), cwd=top, env=env,
        stdin=stdin.encode("utf-8", "surrogateescape"), stderr=subprocess.STDOUT if together else subprocess.PIPE,
        seconds=timeout, most=LARGEST,
    ) as program:  # fmt: skip
        output = b"".join(program.output(silence=0.0))
        code = program.process.wait()
    printed, failures = (
        without_secrets(data.decode("utf-8", "replace")).replace("\r\n", "\n")
        for data in (output, program.errors)
    )
    why = {"late": f"{timeout:g} seconds", "large": f"printing {LARGEST // 1_000_000} MB"}.get(program.ended)
    return Ran(code, printed, failures, time.monotonic() - started, f"was ended after {why}" if why else "")


@dataclass(frozen=True)
class Description:
    """A program's description of itself. `args` maps each argument to its meaning, and is None if any are accepted.
    `body` says what to write between the tags, "" if nothing."""

    name: str
    text: str
    args: Mapping[str, str] | None = field(default_factory=dict)
    body: str = ""
    reads_only: bool = False
    timeout: float = TIMEOUT

    @property
    def prompt(self) -> str:
        """The line that describes the tool in the prompt."""
        quotes = str.maketrans('<>"', "'''")
        args = "".join(f' {name}="{text.translate(quotes)}"' for name, text in (self.args or {}).items())
        body = f">{self.body.translate(quotes)}</{self.name}>" if self.body else "/>"
        return f"<{self.name}{args}{body} {self.text}"


def plugin_tools(
    top: Path, programs: Sequence[str], *, used: Collection[str], decide: Decide, warn: Warn, audit: Audit
) -> tuple[Tool, ...]:
    """The tools of `programs`, from the option `run.tools`.

    used: the names of other tools
    decide: `Gate.decide`, called before each call of a tool that does more than read
    warn: gets a sentence for each skipped program; a program in the work tree is one, because a run could change it,
        and it runs outside of the sandbox
    """
    tools: dict[str, Tool] = {}
    for entry in programs:
        try:
            expanded = Path(os.path.expanduser(entry))  # noqa: PTH111  (a Path raises for an unknown user)
            located = (
                str(expanded) if expanded.is_absolute() else None if "/" in entry else shutil.which(entry)
            )
            path = Path(os.path.normpath(located or ""))
            real = Path(os.path.realpath(path))
            if not path.is_absolute() or not real.is_file():
                raise Refused("is neither the absolute path of a file nor a program on PATH")
            if real.is_relative_to(os.path.realpath(top)) or path.is_relative_to(top):
                raise Refused("is in the work tree, where a run could change it; move it elsewhere")
            if not os.access(real, os.X_OK):
                raise Refused(f"is not executable; run `chmod +x {path}`")
            ran = start([str(path), "--description"], top=top, timeout=PATIENCE)
            if not ran.ok:
                printed = cut_at_word(one_line(ran.errors or ran.output), 200)
                reason = f"{ran.failure} when called with --description"
                raise Refused(f"{reason}: {printed}" if printed else reason)
            description = read_description(ran.output)
            if description.name in (*tools, *used, *_RESERVED):
                raise Refused(f"defines a tool {description.name}, but that name is taken")
        except Refused as error:
            warn(f"the tool {entry} in run.tools {error}; skipped it")
            continue
        tools[description.name] = _tool(path, description, top, decide, audit)
    return tuple(tools.values())


def read_description(output: str) -> Description:
    """Parse the description that a program printed. Raises Refused, worded as the end of a sentence, if it is
    invalid."""
    value = None
    with suppress(ValueError, RecursionError):
        value = json.loads(output)
    if not isinstance(value, dict):
        raise Refused("did not print a JSON object for --description")
    version = value.get("version", VERSION)
    if not isinstance(version, int) or version > VERSION:
        raise Refused(
            f"has a description in format version {version}, but this repoagent supports only {VERSION}; "
            "update repoagent"
        )
    try:
        given = json_files.decode(Description, {"name": "", "text": "", "args": None, **value})
    except TypeError as error:
        raise Refused(f"has an invalid description ({error})") from error
    valid = {
        "`name`; use lowercase letters, digits and dashes": NAME.fullmatch(given.name),
        "`text`; use a line of text": one_line(given.text),
        f"`timeout`; use a number of seconds up to {LONGEST_TIMEOUT:g}": 0 < given.timeout <= LONGEST_TIMEOUT,
        **{f"argument name {name!r}": _ARGUMENT.fullmatch(name) for name in given.args or ()},
    }
    if invalid := next((text for text, is_valid in valid.items() if not is_valid), ""):
        raise Refused(f"has a description without a valid {invalid}")
    args = given.args
    if args is not None:
        args = {name: cut_at_word(one_line(text), 120) for name, text in args.items()}
    text, body = (cut_at_word(one_line(each), LONGEST) for each in (given.text, given.body))
    return replace(given, text=text, body=body, args=args)


def _tool(path: Path, description: Description, top: Path, decide: Decide, audit: Audit) -> Tool:
    name, known = description.name, description.args

    def perform(action: Action) -> Observation:
        if not description.reads_only:
            args = ", ".join(f'{key}="{value}"' for key, value in action.args.items())
            body = f" {action.body.strip()}" if action.body.strip() else ""
            text = cut_at_word(re.sub(r"\s+", " ", printable(f"{action.kind}({args}){body}")), LONGEST)
            reason = "it runs with your rights, outside the sandbox"
            verdict = decide(ApprovalRequest("tool", text, (f"tool:{name}(*",), reason))
            if not verdict.allowed:
                return Observation(name, f"{name} was not run: {verdict.reason}", ok=False)
        if known is not None and (unknown := sorted(set(action.args) - set(known))):
            takes = ", ".join(known) or "no arguments"
            text = f"unknown argument {', '.join(unknown)}: {name} takes {takes}."
            return Observation(name, text, ok=False)
        values = {key: unmask(value) for key, value in action.args.items()}
        body = unmask(action.body)
        call = {"version": VERSION, "name": name, "args": values, "body": body, "top": str(top)}
        variables = {f"ARG_{key.upper().replace('-', '_')}": value for key, value in values.items()}
        stdin, env, timeout = json.dumps(call) + "\n", {**os.environ, **variables}, description.timeout
        try:
            ran = start([str(path)], top=top, stdin=stdin, env=env, timeout=timeout)
        except Refused as error:
            return Observation(name, f"{error}.", ok=False)
        seconds = round(ran.seconds, 3)
        audit({"kind": "tool", "name": name, "command": str(path), "exit": ran.code, "seconds": seconds})
        return observed(name, ran)

    return Tool(name, description.prompt, perform, needs="nothing" if description.reads_only else "writes")


def observed(name: str, ran: Ran) -> Observation:
    """Convert a program's output to an observation. The output is JSON with `text`, `ok` and `data`, or plain text."""
    text, ok = ran.output, ran.ok
    data: dict[str, object] = {}
    record = None
    if ran.output.lstrip().startswith("{"):
        with suppress(ValueError, RecursionError):
            record = json.loads(ran.output)
    if isinstance(record, dict) and isinstance(record.get("text"), str):
        text, ok = record["text"], ok and record.get("ok", True) is True
        data = record["data"] if isinstance(record.get("data"), dict) else {}
    parts = [] if ran.ok else [f"{name} {ran.failure}."]
    if text.strip():
        parts.append(fence(mask(printable(text)), f'output tool="{name}"'))
    if not ok and ran.errors.strip():
        parts.append(fence(mask(printable(ran.errors[-4096:])), f'errors tool="{name}"'))
    return Observation(name, "\n".join(parts) or f"{name} printed nothing.", ok=ok, data=data)


class HookAnswer(NamedTuple):
    """The result of a hook: whether it succeeded, and its output for the model."""

    ok: bool = True
    text: str = ""


@dataclass(frozen=True)
class UserHooks:
    """The hook commands in the configuration, for the run `run` at `top`. Call the object to run one of them.

    `confined` takes a command, and returns the confined command and its environment while there are unreviewed changes,
    otherwise None.
    """

    top: Path
    run: str
    commands: Mapping[Event, str | None]
    audit: Audit = lambda event: None
    confined: Callable[[Sequence[str]], tuple[list[str], Mapping[str, str]] | None] = lambda argv: None

    def __call__(self, event: Event, turn: int = 0, paths: Sequence[str] | None = None) -> HookAnswer:
        """Run the hook for `event`, if there is one. `paths` are those that an edit or the run has changed."""
        command = self.commands.get(event)
        if command is None:
            return HookAnswer()
        facts = {"turn": turn} if paths is None else {"turn": turn, "paths": [*paths][:PATHS]}
        message = {"version": VERSION, "event": event, "run": self.run, "top": str(self.top), **facts}
        variables = {  # for hooks that do not read JSON
            "AGENT_EVENT": event,
            "AGENT_RUN": self.run,
            "AGENT_TURN": str(turn),
            "AGENT_PATHS": "\n".join(list(paths or ())[:PATHS]).replace("\0", "")[: 64 * 1024],
        }
        argv, env = self.confined(["/bin/sh", "-c", command]) or (command, os.environ)
        try:
            ran = start(
                argv, top=self.top, stdin=json.dumps(message) + "\n", env={**env, **variables},
                timeout=HOOK_TIMEOUT, together=True,
            )  # fmt: skip
        except Refused as error:
            return HookAnswer(False, f"run.{event}: {error}.")
        seconds = round(ran.seconds, 3)
        self.audit({"kind": "hook", "event": event, "command": command, "exit": ran.code, "seconds": seconds})
        output = mask(printable(shorten(ran.output, SHOWN, "[… output omitted …]")))
        if ran.ok and not output.strip():
            return HookAnswer()
        command_text = cut_at_word(one_line(mask(without_secrets(command))), 200)
        failure = "" if ran.ok else f" {ran.failure}"
        lead = f"The user's command {event} (`{command_text}`){failure}"
        text = f"{lead}:\n{fence(output, 'output')}" if output.strip() else f"{lead}, and printed nothing."
        return HookAnswer(ran.ok, text)
