"""Known programs for `command:CMD`: the arguments that make each only answer, and the readers of their output.

Output is plain text as on a terminal (without colors, titles, spinners), or JSON events, one per line.
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
_LONGEST = 8192  # characters of an escape sequence
_MOVE = re.compile(f"{_CONTROL.pattern}|\r|\b")
_OTHERS = re.compile(r"[\x00-\x07\x0b\x0e-\x1f\x7f]")


@dataclass
class ProgramReply:
    """The reply of a program. `error` is its own message of a failure; `known` is False if the reply could not be
    identified in its output."""

    text: str = ""
    stop: Stop = "end"
    usage: Usage | None = None
    model: str = ""
    error: str = ""
    known: bool = False


class PlainReader:
    """Reads output that is the reply itself. `feed` returns the text to show at once; `reply` is the text that a
    terminal would show at the end."""

    def __init__(self) -> None:
        self._all: list[str] = []
        self._rest = ""  # an incomplete escape sequence

    def feed(self, piece: str) -> str:
        self._all.append(piece)
        data = self._rest + piece
        at = 0
        while (at := data.find("\x1b", at)) >= 0:
            match = _CONTROL.match(data, at)
            if match is None and len(data) - at < _LONGEST:
                break  # wait for the rest of it
            at = match.end() if match else at + 1
        cut = len(data) if at < 0 else at
        data, self._rest = data[:cut], data[cut:]
        return _OTHERS.sub("", _CONTROL.sub("", data))

    def finish(self) -> str:
        return _OTHERS.sub("", self._rest)

    def reply(self) -> ProgramReply:
        return ProgramReply(plain_text("".join(self._all)), known=True)


def plain_text(text: str) -> str:
    """`text` as a terminal would show it at the end: of an overwritten line, the last version."""
    *lines, last = text.split("\n")
    whole = (_plain_line(line.removesuffix("\r")) + "\r" * line.endswith("\r") + "\n" for line in lines)
    return "".join([*whole, _plain_line(last)])


def _plain_line(line: str) -> str:
    text, at, at_start = "", 0, False  # at_start: the next characters overwrite the line
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
        elif letter == "D":  # back by `number` columns, to overwrite the end of the line
            text = text[: max(0, len(text) - (int(number) if number.isdecimal() else 1))]
    return text


Event = dict[str, Any]
Handler = Callable[[ProgramReply, Event], str]  # updates the reply by an event; returns text to show


class EventReader:
    """Reads output that consists of events; has the methods of PlainReader."""

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
        return ProgramReply(plain_text(raw), known=True)  # the user's command selects text output

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
            return ""  # the format of another version: `known` stays False if the reply is missing


_STOPS: dict[str, Stop] = {"max_tokens": "length", "refusal": "refusal"}


def claude(reply: ProgramReply, event: Event) -> str:
    """`claude -p --output-format stream-json` (or json, which prints only the last event)."""
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
    """`codex exec --json`: the last message is the reply; an error counts unless the turn completes later."""
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
    """The numbers in the `usage` of an event, 0 for missing ones."""
    usage = event.get("usage") or {}
    return [max(0, usage[name]) if isinstance(usage.get(name), int) else 0 for name in names]


@dataclass(frozen=True)
class Program:
    """How to run a known program and read its output.

    adds: (arguments in shell syntax, words): the arguments are left out if the command contains one of the words.
    before: shell text before the command. only: the subcommand that answers. install, login: instructions.
    handler: reads the events it prints; None for plain text. counts: patterns that find the number of input and output
    tokens on standard error.
    agent: it can change files. Its arguments forbid that, and it runs in an empty folder, so that no file of a
    repository can instruct it, unless the command contains one of the words `works_here`, by which the user lets it
    work in the current folder.
    drops: environment variables that prevent it from starting.
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
            # "" removes the built-in tools but not those of the MCP servers in the user's configuration
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
        before="GEMINI_CLI_TRUST_WORKSPACE=true",  # otherwise it stops in an unknown folder
        agent=True,  # if not interactive, it refuses tools that change files
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
    """The command line to run for `command`: with the arguments that make a known program only answer, in a format that
    can be parsed, except those that the user has set differently."""
    words = simple_words(command)
    known = known_program(command)
    if known is None or (known.only and known.only not in words):
        return command
    options = {word.partition("=")[0] for word in words}
    line = command.strip()
    if known is PROGRAMS["gemini"] and words[-1] in {"-p", "--prompt"}:
        line += " ''"  # the option requires a value, to which standard input is appended
    added = [text for text, unless in known.adds if not options & {*unless.split()}]
    before = [known.before] if known.before and not line.startswith(known.before) else []
    return " ".join([*before, line, *added])


def known_program(command: str) -> Program | None:
    """The known program that `command` runs; None if it is another one or not a simple command."""
    return next((PROGRAMS.get(PurePath(word).name) for word in simple_words(command)), None)


def runs_in_empty_folder(command: str) -> bool:
    """Whether to run `command` in an empty folder: an agent, unless its options or files refer to the current one."""
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
    """The words of a simple command without its leading assignments; [] if it needs a shell (a pipe, a redirection, a
    substitution)."""
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
    """`command` for display and logs, with possible keys masked."""
    masked = re.sub(r"(?<!\S)([A-Za-z_]\w*=)\S+", r"\1***", command)
    masked = re.sub(r"(?i)(--?[\w-]*(?:key|token|secret|password)[ =])\S+", r"\1***", masked)
    return without_keys(" ".join(masked.split()))


def without_keys(text: str) -> str:
    """`text` with everything masked that looks like a key of a common provider."""
    return re.sub(
        r"\b(?:sk|gsk|xai|AIza|hf|r8|pplx)[-_]?[A-Za-z0-9_-]{16,}|(?i:(bearer) )\S{12,}", "***", text
    )
