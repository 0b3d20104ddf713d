"""Third-party tools: programs that describe themselves (`run.tools`), and the entry-point group `repoagent.tools`.

Each is called through the gate. A broken tool is skipped with a warning.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repoagent.agent.actions import Action, Observation
from repoagent.agent.approvals.policy import ApprovalRequest, Verdict
from repoagent.agent.reply_lexer import DATA
from repoagent.agent.state import EDIT, OWN, Tool
from repoagent.dataclass import dataclass
from repoagent.errors import Refused, RepoagentError, UsageError
from repoagent.llm.model import fence, printable
from repoagent.storage.layout import Warn
from repoagent.storage.secrets import mask, unmask
from repoagent.tasks.markdown_files import cut, one_line
from repoagent.tasks.user_hooks import Ran, start

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

VERSION = 1
GROUP = "repoagent.tools"
PATIENCE = 10.0  # seconds for a description
TIMEOUT = 60.0  # seconds for a call, unless the description sets another
LONGEST_TIMEOUT = 3600.0
LONGEST = 500  # characters of a tool's line in the prompt, and of an action in a question to the user
NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_ARGUMENT = re.compile(r"(?!id\Z)[A-Za-z_][\w-]{0,39}")
# names with a meaning in a reply or in a prompt
_RESERVED = {
    EDIT, "observation", "user", "assistant", "system", "human", *DATA, *(tool.name for tool in OWN),
    "file", "content", "context", "matches", "output", "errors", "files", "skills", "agents", "agent",
}  # fmt: skip

Audit = Callable[[Mapping[str, object]], None]
Decide = Callable[[ApprovalRequest], Verdict]


@dataclass(frozen=True)
class Description:
    """A program's description of itself. `args` and `body` describe their purpose. args: None accepts any arguments.
    body: "" accepts none."""

    name: str
    text: str
    args: Mapping[str, str] | None = field(default_factory=dict)
    body: str = ""
    reads_only: bool = False
    timeout: float = TIMEOUT

    @property
    def prompt(self) -> str:
        """The tool's line in the prompt: an example of the tag, and what the tool does."""
        if self.text.startswith(f"<{self.name}"):
            return self.text
        args = "".join(f' {name}="{_unquoted(meaning)}"' for name, meaning in (self.args or {}).items())
        body = f">{_unquoted(self.body)}</{self.name}>" if self.body else "/>"
        return f"<{self.name}{args}{body} {self.text}"


def _unquoted(text: str) -> str:
    return re.sub(r'[<>"]', "'", text)


def program(entry: str, top: Path) -> Path:
    """The program that an entry of `run.tools` names: an absolute path, `~/...`, or a name on PATH.

    Raises Refused, worded as the end of a sentence. A program in the work tree is refused: a run could change it, and
    it runs outside of the sandbox.
    """
    expanded = Path(os.path.expanduser(entry))  # noqa: PTH111  (a Path raises for an unknown user)
    located = str(expanded) if expanded.is_absolute() else None if "/" in entry else shutil.which(entry)
    if located is None:
        raise Refused("is neither an absolute path nor a program on PATH")
    path = Path(os.path.normpath(located))
    if not path.is_absolute():
        raise Refused("is in a folder on PATH that is not absolute")
    real = Path(os.path.realpath(path))
    if real.is_relative_to(os.path.realpath(top)) or path.is_relative_to(top):
        raise Refused("is in the work tree, where a run could change it; move it elsewhere")
    if not real.is_file():
        raise Refused("is not there")
    if not os.access(real, os.X_OK):
        raise Refused(f"is not executable; run `chmod +x {path}`")
    return path


def describe(path: Path, top: Path) -> Description:
    """Call the program at `path` with `--description`. Raises Refused, worded as the end of a sentence."""
    ran = start([str(path), "--description"], top=top, timeout=PATIENCE)
    if not ran.ok:
        printed = cut(one_line(ran.errors or ran.output), 200)
        failure = ran.ended or f"failed with exit code {ran.code}"
        raise Refused(f"{failure} when called with --description" + (f": {printed}" if printed else ""))
    try:
        record = json.loads(ran.output)
    except (ValueError, RecursionError) as error:
        raise Refused("does not answer --description with JSON") from error
    return _checked_description(record)


def _checked_description(record: object) -> Description:
    if not isinstance(record, dict):
        raise Refused("did not print a JSON object for --description")
    version = record.get("version", VERSION)
    if not isinstance(version, int) or version > VERSION:
        raise Refused(
            f"has a description of version {version}, but this repoagent supports only {VERSION}; update repoagent"
        )
    name: Any = record.get("name")
    text: Any = record.get("text")
    body, args = record.get("body", ""), record.get("args")
    reads_only, timeout = record.get("reads_only", False), record.get("timeout", TIMEOUT)
    is_number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    seconds = f"a number of seconds up to {LONGEST_TIMEOUT:g}"
    for valid, field_name, rule in (
        (isinstance(name, str) and NAME.fullmatch(name), "name", "of lowercase letters, digits, dashes"),
        (isinstance(text, str) and one_line(text), "text", "a line of text"),
        (isinstance(body, str), "body", "text"),
        (isinstance(reads_only, bool), "reads_only", "true or false"),
        (is_number and 0 < timeout <= LONGEST_TIMEOUT, "timeout", seconds),  # false for NaN
        (args is None or isinstance(args, dict), "args", "an object of names and descriptions"),
    ):
        if not valid:
            raise Refused(f"has no valid {field_name} in its description; it must be {rule}")
    for argument, meaning in (args or {}).items():
        if not _ARGUMENT.fullmatch(argument) or not isinstance(meaning, str):
            raise Refused(f"has the invalid argument name {argument!r} in its description")
    meanings = None if args is None else {key: cut(one_line(meaning), 120) for key, meaning in args.items()}
    return Description(
        name,
        cut(one_line(text), LONGEST),
        meanings,
        cut(one_line(body), LONGEST),
        reads_only,
        float(timeout),
    )


@dataclass(frozen=True)
class Context:
    """The argument of an entry point's function. settings: the user's configuration under `tool.NAME`, where NAME is
    the name of the entry point. audit: writes an event to `audit.jsonl`."""

    top: Path
    settings: Mapping[str, str]
    audit: Audit = lambda event: None


@dataclass(frozen=True)
class PluginTool(Tool):
    """A tool that declares whether it only reads; a plain `Tool` needs approval before each call."""

    reads_only: bool = False


def tools_of(point: EntryPoint, context: Context) -> list[Tool]:
    """The tools that an entry point returns. Raises Refused for any failure, worded as the end of a sentence."""
    try:
        made = point.load()(context)
        tools = list(made if isinstance(made, Iterable) else [made])
    except RepoagentError:
        raise
    except (Exception, SystemExit) as error:
        raise Refused(_failure(error)) from error
    for tool in tools:
        if not isinstance(tool, Tool):
            raise Refused(f"returns {type(tool).__name__} instead of a Tool")
    return tools


def _failure(error: BaseException) -> str:
    message = cut(one_line(str(error)), 200)
    return f"failed: {type(error).__name__}" + (f": {message}" if message else "")


def contained(tool: Tool) -> Tool:
    """The tool, with its errors as observations, so that they do not end the run."""

    def perform(action: Action) -> Observation:
        try:
            observation: object = tool.perform(action)
        except (Refused, UsageError) as error:
            return Observation(tool.name, str(error), ok=False)
        except RepoagentError:
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001  (a plugin may raise anything)
            return Observation(tool.name, f"the tool {tool.name} {_failure(error)}.", ok=False)
        if not isinstance(observation, Observation):
            return Observation(tool.name, f"the tool {tool.name} returned no observation.", ok=False)
        return observation

    return replace(tool, perform=perform)


def program_tool(path: Path, description: Description, top: Path, audit: Audit) -> Tool:
    """The tool for the program at `path`. It runs at `top`, with the user's rights and environment."""
    name, known = description.name, description.args

    def perform(action: Action) -> Observation:
        if known is not None and (unknown := sorted(set(action.args) - set(known))):
            takes = ", ".join(known) or "no arguments"
            text = f"unknown argument {', '.join(unknown)}: {name} takes {takes}."
            return Observation(name, text, ok=False)
        if action.body.strip() and not description.body and not description.text.startswith("<"):
            return Observation(name, f"{name} takes no body: {description.prompt}", ok=False)
        args = {key: unmask(value) for key, value in action.args.items()}
        call = {"version": VERSION, "name": name, "args": args, "body": unmask(action.body), "top": str(top)}
        environment = {f"ARG_{key.upper().replace('-', '_')}": value for key, value in args.items()}
        stdin = json.dumps(call) + "\n"
        try:
            ran = start(
                [str(path)], top=top, stdin=stdin, environment=environment, timeout=description.timeout
            )
        except Refused as error:
            return Observation(name, f"{error}.", ok=False)
        seconds = round(ran.seconds, 3)
        audit({"kind": "tool", "name": name, "command": str(path), "exit": ran.code, "seconds": seconds})
        return observed(name, ran)

    return Tool(name, description.prompt, perform)


def observed(name: str, ran: Ran) -> Observation:
    """The observation of a program's output: JSON with `text`, `ok` and `data`, or plain text; with its standard error
    after a failure."""
    text, ok = ran.output, ran.ok
    data: dict[str, object] = {}
    try:
        record = json.loads(ran.output) if ran.output.lstrip().startswith("{") else None
    except (ValueError, RecursionError):
        record = None
    if isinstance(record, dict) and isinstance(record.get("text"), str):
        text, ok = record["text"], ok and record.get("ok", True) is True
        data = record["data"] if isinstance(record.get("data"), dict) else {}
    parts = [] if ran.ok else [f"{name} {ran.ended or f'failed with exit code {ran.code}'}."]
    if text.strip():
        parts.append(fence(mask(printable(text)), f'output tool="{name}"'))
    if not ok and ran.errors.strip():
        parts.append(fence(mask(printable(ran.errors[-4096:])), f'errors tool="{name}"'))
    return Observation(name, "\n".join(parts) or f"{name} printed nothing.", ok=ok, data=data)


def plugin_tools(
    top: Path,
    programs: Sequence[str],
    *,
    taken: Collection[str],
    decide: Decide,
    warn: Warn,
    settings: Mapping[str, str] | None = None,
    audit: Audit = lambda event: None,
) -> tuple[Tool, ...]:
    """The tools of installed packages (entry points `repoagent.tools`), then those of `programs` (`run.tools`).

    taken: the names of other tools. decide: `Gate.decide`, called before each call of a tool that does more than read.
    warn: gets a sentence for each skipped tool. settings: of all plugins, as `NAME.KEY`. Reads nothing in the
    repository.
    """
    from importlib.metadata import entry_points

    tools: dict[str, Tool] = {}

    def add(source: str, make: Callable[[], Iterable[tuple[Tool, bool]]]) -> None:
        try:
            made = make()
        except (Refused, UsageError) as error:
            warn(f"{source} {error}; skipped it")
            return
        for tool, reads_only in made:
            if not (isinstance(tool.name, str) and NAME.fullmatch(tool.name)):
                warn(f"{source} defines a tool with the invalid name {tool.name!r}; skipped it")
            elif tool.name in tools or tool.name in taken or tool.name in _RESERVED:
                warn(f"{source} defines a tool {tool.name}, but that name is taken; skipped it")
            else:
                tools[tool.name] = replace(tool, needs="nothing") if reads_only else gated(tool, decide)

    def of_package(point: EntryPoint) -> list[tuple[Tool, bool]]:
        own = {
            key.removeprefix(f"{point.name}."): value
            for key, value in (settings or {}).items()
            if key.startswith(f"{point.name}.")
        }
        made = tools_of(point, Context(top, own, audit))
        return [(contained(tool), isinstance(tool, PluginTool) and tool.reads_only) for tool in made]

    def of_program(entry: str) -> list[tuple[Tool, bool]]:
        path = program(entry, top)
        description = describe(path, top)
        return [(program_tool(path, description, top, audit), description.reads_only)]

    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        add(f"the plugin {point.name} ({point.value})", partial(of_package, point))
    for entry in programs:
        add(f"the tool {entry} of run.tools", partial(of_program, entry))
    return tuple(tools.values())


def gated(tool: Tool, decide: Decide) -> Tool:
    """The tool, with approval before each call. "Always" allows it with any arguments."""

    def perform(action: Action) -> Observation:
        args = ", ".join(f'{key}="{value}"' for key, value in action.args.items())
        body = f" {action.body.strip()}" if action.body.strip() else ""
        text = cut(re.sub(r"\s+", " ", printable(f"{action.kind}({args}){body}")), LONGEST)
        reason = "it runs with your rights, outside the sandbox"
        verdict = decide(ApprovalRequest("tool", text, (f"tool:{tool.name}(*",), reason))
        if not verdict.allowed:
            return Observation(tool.name, f"{tool.name} was not run: {verdict.reason}", ok=False)
        return tool.perform(action)

    return replace(tool, perform=perform)
