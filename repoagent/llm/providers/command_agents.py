"""The programs that people use as `command:CMD`: the arguments that make each only answer, and how its output is read.

Output is plain text as on a terminal (without colors, titles, spinners), or JSON events, one a line.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any

from repoagent.dataclass import dataclass
from repoagent.llm.model import Stop, Usage

# CSI; OSC, DCS and the other strings up to BEL or ST; escapes of two and three characters.
_CONTROL = re.compile(
    r"\x1b\[([0-?]*)[ -/]*([@-~])"
    r"|\x1b[\]PX^_][^\x07\x1b\n]{0,8000}(?:\x07|\x1b\\)"
    r"|\x1b[ -/]+[0-~]|\x1b[0-OQ-WYZ\\`-~]"
)
_LONGEST = 8192  # characters; an escape that does not end by then is none
_MOVE = re.compile(f"{_CONTROL.pattern}|\r|\b")
_OTHERS = re.compile(r"[\x00-\x07\x0b\x0e-\x1f\x7f]")


@dataclass
class ProgramReply:
    """What a program replied. `error` is its own words for a failure; `known` is False for output that should say which
    part of it is the reply, and does not."""

    text: str = ""
    stop: Stop = "end"
    usage: Usage | None = None
    model: str = ""
    error: str = ""
    known: bool = False


class PlainReader:
    """A reader of output that is the reply itself. `feed` returns what can be shown at once; `reply` has what a
    terminal would show in the end."""

    def __init__(self) -> None:
        self._all: list[str] = []
        self._rest = ""  # an escape sequence that has not ended

    def feed(self, piece: str) -> str:
        self._all.append(piece)
        data = self._rest + piece
        at = 0
        while (at := data.find("\x1b", at)) >= 0:
            match = _CONTROL.match(data, at)
            if match is None and len(data) - at < _LONGEST:
                break  # the rest of it may be still to come
            at = match.end() if match else at + 1
        cut = len(data) if at < 0 else at
        data, self._rest = data[:cut], data[cut:]
        return _OTHERS.sub("", _CONTROL.sub("", data))

    def finish(self) -> str:
        return _OTHERS.sub("", self._rest)

    def reply(self) -> ProgramReply:
        return ProgramReply(plain_text("".join(self._all)), known=True)


def plain_text(text: str) -> str:
    """`text` as a terminal would show it in the end: a line that is written over counts as it was written last."""
    *lines, last = text.split("\n")
    whole = (_plain_line(line.removesuffix("\r")) + "\r" * line.endswith("\r") + "\n" for line in lines)
    return "".join([*whole, _plain_line(last)])


def _plain_line(line: str) -> str:
    text, at, at_start = "", 0, False  # at_start: what comes is written over the line
    for match in [*_MOVE.finditer(line), None]:
        if more := _OTHERS.sub("", line[at : match.start() if match else len(line)]):
            text, at_start = more if at_start else text + more, False
        if match is None:
            return text
        at, number, letter = match.end(), match[1], match[2]
        if match[0] == "\b":
            text = text[:-1]
        elif match[0] == "\r" or (letter == "G" and number in {"", "1"}):
            at_start = True
        elif letter == "K" and (number == "2" or at_start):
            text = ""
        elif letter == "D":  # back by so many columns, to write over the end of the line
            text = text[: max(0, len(text) - (int(number) if number.isdecimal() else 1))]
    return text


Event = dict[str, Any]
Handler = Callable[[ProgramReply, Event], str]  # takes an event in; returns what it adds to what is shown


class EventReader:
    """A reader of output that is made of events, with the same methods as PlainReader."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._reply = ProgramReply()
        self._all: list[str] = []
        self._line = ""

    def feed(self, piece: str) -> str:
        self._all.append(piece)
        *lines, self._line = (self._line + piece).split("\n")
        return "".join(self._take(line) for line in lines)

    def finish(self) -> str:
        shown = self._take(self._line)
        if not self._reply.known:  # one object over many lines
            shown += self._take("".join(self._all))
        return shown

    def reply(self) -> ProgramReply:
        raw = "".join(self._all)
        if self._reply.known or raw.lstrip()[:1] in {"{", "["}:
            return self._reply
        return ProgramReply(plain_text(raw), known=True)  # the user has asked for text

    def _take(self, line: str) -> str:
        if line.lstrip()[:1] not in {"{", "["}:
            return ""
        try:
            value = json.loads(line)
        except ValueError:
            return ""
        events = value if isinstance(value, list) else [value]
        try:
            return "".join(self._handler(self._reply, event) for event in events if isinstance(event, dict))
        except (AttributeError, KeyError, TypeError):
            return ""  # the shape of another version: `known` says at the end what is missing then


_STOPS: dict[str, Stop] = {"max_tokens": "length", "refusal": "refusal"}


def claude(reply: ProgramReply, event: Event) -> str:
    """`claude -p --output-format stream-json` (or json: the last of these events alone)."""
    kind = event.get("type")
    if kind == "system" and event.get("subtype") == "init":
        reply.model = str(event.get("model") or "")
    elif kind == "stream_event":
        delta = event["event"].get("delta") or {}
        if delta.get("type") == "text_delta":
            return str(delta["text"])
    elif kind == "result":
        reply.known = True
        cost = event.get("total_cost_usd")
        counts = _counts(
            event,
            *("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"),
        )
        dollars = float(cost) if isinstance(cost, int | float) and cost > 0 else None
        reply.usage = replace(Usage(*counts), dollars=dollars) if any(counts) else None
        models = event.get("modelUsage") or {}
        reply.model = reply.model or max(
            models, key=lambda name: models[name].get("outputTokens", 0), default=""
        )
        words = event.get("result")
        if event.get("is_error") or not isinstance(words, str):
            reply.error = str(words or event.get("errors") or event.get("subtype") or "no result")
        else:
            reply.text = words
        reply.stop = _STOPS.get(str(event.get("stop_reason")), "end")
    return ""


def codex(reply: ProgramReply, event: Event) -> str:
    """`codex exec --json`: the last message is the reply; errors count unless the turn is completed after all."""
    kind = event.get("type")
    if kind == "item.completed" and event["item"].get("type") == "agent_message":
        reply.known, reply.text = True, str(event["item"]["text"])
    elif kind == "turn.completed":
        reply.known, reply.error = True, ""
        prompt, output, cached = _counts(event, "input_tokens", "output_tokens", "cached_input_tokens")
        reply.usage = Usage(prompt - cached, output, cached) if prompt or output else None
    elif kind in {"turn.failed", "error"}:
        reply.known = True
        reply.error = str((event.get("error") or event)["message"])
    return ""


def _counts(event: Event, *names: str) -> list[Any]:
    """The numbers in the `usage` of an event, 0 for what is missing."""
    usage = event.get("usage") or {}
    return [max(0, usage[name]) if isinstance(usage.get(name), int) else 0 for name in names]


@dataclass(frozen=True)
class Program:
    """What is known of a program.

    adds: arguments, as the shell reads them, each left out where one of the words after it is in the command.
    before: what the shell reads before the command. only: the subcommand that answers. install, login: how to.
    handler: how the events that it prints are read; None for plain text. counts: where it says on standard error how
    many tokens went in and came out.
    agent: it could change files. Its arguments forbid that, and it runs in an empty folder, where no file of a
    repository can give it instructions; unless one of the words `works_here` says that the user wants it to work in
    this one.
    drops: environment variables that keep it from starting.
    """

    install: str
    login: str = ""
    adds: tuple[tuple[str, str], ...] = ()
    before: str = ""
    only: str = ""
    handler: Handler | None = None
    counts: tuple[str, str] | None = None
    agent: bool = False
    works_here: str = ""
    drops: tuple[str, ...] = ()


_CLAUDE_TOOLS = "--tools --allowedTools --allowed-tools --permission-mode --dangerously-skip-permissions"
_CODEX_SANDBOX = "-s --sandbox --full-auto --yolo --dangerously-bypass-approvals-and-sandbox"
_CLAUDE_PROMPTS = "--system-prompt --system-prompt-file --append-system-prompt"

PROGRAMS = {
    "claude": Program(
        install="npm install -g @anthropic-ai/claude-code",
        login="start `claude` once and log in",
        adds=(
            ("-p", "-p --print"),
            ("--output-format stream-json --verbose --include-partial-messages", "--output-format"),
            # "" takes its own tools away but not those of the MCP servers in a user's configuration
            ('--tools ""', _CLAUDE_TOOLS),
            ("--strict-mcp-config", "--strict-mcp-config --mcp-config"),
            ("--system-prompt 'Answer the request that you are given.'", _CLAUDE_PROMPTS),
            ("--no-session-persistence", "--no-session-persistence -c --continue -r --resume"),
        ),
        handler=claude,
        agent=True,
        works_here=f"{_CLAUDE_TOOLS} --add-dir -c --continue -r --resume",
        drops=("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT"),  # it refuses to run inside another one
    ),
    "codex": Program(
        install="npm install -g @openai/codex",
        login="run `codex login`",
        adds=(
            ("exec", "exec e"),
            ("--json", "--json --experimental-json"),
            ("--sandbox read-only", _CODEX_SANDBOX),
            ("--skip-git-repo-check", "--skip-git-repo-check"),
            ("--ephemeral", "--ephemeral resume"),
        ),
        handler=codex,
        agent=True,
        works_here=f"{_CODEX_SANDBOX} -C --cd --add-dir resume",
    ),
    "gemini": Program(
        install="npm install -g @google/gemini-cli",
        login="start `gemini` once and log in",
        before="GEMINI_CLI_TRUST_WORKSPACE=true",  # without it, it stops in a folder that it does not know
        agent=True,  # without a user it refuses tools that change something
        works_here="-y --yolo --approval-mode --include-directories -r --resume",
    ),
    "llm": Program(
        install="pipx install llm",
        login="run `llm keys set`",
        adds=(("-u", "-u --usage"),),
        counts=(r"Token usage: ([\d,]+) input", r"Token usage: [\d,]+ input, ([\d,]+) output"),
    ),
    "ollama": Program(
        install="see https://ollama.com/download",
        adds=(
            ("--nowordwrap", "--nowordwrap"),
            ("--hidethinking", "--hidethinking"),
            ("--verbose", "--verbose"),
        ),
        only="run",
        counts=(r"prompt eval count:\s+(\d+)", r"(?m)^\s*eval count:\s+(\d+)"),
    ),
    "aichat": Program(install="cargo install aichat"),
}


def full_command(command: str) -> str:
    """The command line that is really run for `command`: with the arguments that make a known program answer,
    in a form that can be read, and change nothing; those that the user has set otherwise are left alone."""
    words = simple_words(command)
    known = known_program(command)
    if known is None or (known.only and known.only not in words):
        return command
    options = {word.partition("=")[0] for word in words}
    line = command.strip()
    if known is PROGRAMS["gemini"] and words[-1] in {"-p", "--prompt"}:
        line += " ''"  # it takes a value, and joins what it reads to it
    added = [text for text, unless in known.adds if not options & {*unless.split()}]
    before = [known.before] if known.before and not line.startswith(known.before) else []
    return " ".join([*before, line, *added])


def known_program(command: str) -> Program | None:
    """The known program that `command` runs, and nothing else."""
    return next((PROGRAMS.get(PurePath(word).name) for word in simple_words(command)), None)


def runs_in_empty_folder(command: str) -> bool:
    """Whether `command` is to run in an empty folder: an agent, unless its options or files say to work in this one."""
    known = known_program(command)
    words = simple_words(command)
    if (
        known is None
        or not known.agent
        or {word.partition("=")[0] for word in words} & {*known.works_here.split()}
    ):
        return False

    def is_file(word: str) -> bool:
        try:
            return not word.startswith(("/", "~")) and ("/" in word or "." in word) and Path(word).exists()
        except OSError:  # too long for a name
            return False

    return not any(map(is_file, words))


def simple_words(command: str) -> list[str]:
    """The words of one simple command without its leading assignments; [] for anything that only a shell
    understands (a pipe, a redirection, a substitution): that is left to the user."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        words = list(lexer)
    except ValueError:  # an open quote
        return []
    if any((word and not word.strip("();<>|&")) or word.startswith("#") for word in words):
        return []
    if any(sign in command for sign in ("\n", "`", "$(")):
        return []
    while words and re.match(r"[A-Za-z_]\w*=", words[0]):
        del words[0]
    return words


def reported_usage(known: Program | None, stderr: str) -> Usage | None:
    """The usage that a program reports on standard error."""
    counts = [re.findall(pattern, stderr) for pattern in known.counts or ()] if known else []
    if not counts or not all(counts):
        return None
    prompt, output = (int(numbers[-1].replace(",", "")) for numbers in counts)
    return Usage(prompt, output)


def masked_command(command: str) -> str:
    """`command` as it may be shown and logged: what may be a key is left out."""
    masked = re.sub(r"(?<!\S)([A-Za-z_]\w*=)\S+", r"\1***", command)
    masked = re.sub(r"(?i)(--?[\w-]*(?:key|token|secret|password)[ =])\S+", r"\1***", masked)
    return without_keys(" ".join(masked.split()))


def without_keys(text: str) -> str:
    """`text` without what looks like a key of one of the usual providers."""
    return re.sub(
        r"\b(?:sk|gsk|xai|AIza|hf|r8|pplx)[-_]?[A-Za-z0-9_-]{16,}|(?i:(bearer) )\S{12,}", "***", text
    )
