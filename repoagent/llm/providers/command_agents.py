"""Text as a program prints it for a terminal, made plain: no colours, no titles, no spinner.

What coding agents print with JSON output: one event a line. Each handler knows the events of one of them.

The programs that people use as `command:CMD`: what they need to be told to answer and do nothing else.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import field
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
_MOVE = re.compile(f"{_CONTROL.pattern}|\r(?!\n)|\b")
_OTHERS = re.compile(r"[\x00-\x07\x0b\x0e-\x1f\x7f]")


@dataclass
class ProgramReply:
    """What a program has said. `error` is its own words for a failure; `known` is False for output in a form
    that should say what is the reply, and does not."""

    text: str = ""
    stop: Stop = "end"
    usage: Usage | None = None
    model: str = ""
    error: str = ""
    known: bool = False


@dataclass
class PlainReader:
    """A reader of output that is the reply itself. `feed` gives what can be shown at once; `said` has what a
    terminal would show in the end: a line that is written over (a spinner) counts as it was written last."""

    _done: list[str] = field(default_factory=list)
    _line: str = ""
    _home: bool = False  # the cursor is at the start of the line: what comes is written over it
    _rest: str = ""

    def feed(self, piece: str) -> str:
        data = self._rest + piece
        end = _complete_up_to(data)
        data, self._rest = data[:end], data[end:]
        return self._write(data)

    def finish(self) -> str:
        rest, self._rest = self._rest, ""
        return self._write(rest)

    @property
    def said(self) -> ProgramReply:
        return ProgramReply(text="".join(self._done) + self._line, known=True)

    def _write(self, data: str) -> str:
        shown: list[str] = []
        at = 0
        for match in _MOVE.finditer(data):
            shown.append(self._put(data[at : match.start()]))
            at = match.end()
            self._move(match)
        shown.append(self._put(data[at:]))
        return "".join(shown)

    def _put(self, text: str) -> str:
        text = _OTHERS.sub("", text)
        if self._home and text:
            self._home = False
            if not text.lstrip("\r").startswith("\n"):
                self._line = ""
        *lines, last = text.split("\n")
        for line in lines:
            self._done.append(f"{self._line}{line}\n")
            self._line = ""
        self._line += last
        return text

    def _move(self, match: re.Match[str]) -> None:
        number, letter = match[1], match[2]
        if match[0] == "\b":
            self._line = self._line[:-1]
        elif match[0] == "\r" or (letter == "G" and number in {"", "1"}):
            self._home = True
        elif letter == "K" and (number == "2" or self._home):
            self._line = ""
        elif letter == "D":  # back by so many columns, to write over the end of the line
            back = int(number) if number.isdecimal() else 1
            self._line = self._line[: max(0, len(self._line) - back)]


def plain_text(text: str) -> str:
    """`text` as a terminal would show it in the end."""
    reader = PlainReader()
    reader.feed(text)
    reader.finish()
    return reader.said.text


def _complete_up_to(data: str) -> int:
    """Up to where `data` can be read without what comes next."""
    at = 0
    while (at := data.find("\x1b", at)) >= 0:
        match = _CONTROL.match(data, at)
        if match is None and len(data) - at < _LONGEST:
            return at
        at = match.end() if match else at + 1
    return len(data) - data.endswith("\r")


Event = dict[str, Any]


Handler = Callable[[ProgramReply, Event], str]
"""Takes one event in; what it adds to the reply as it is written, "" for nothing."""


@dataclass
class EventReader:
    """A reader of output that is made of events. `feed` gives what can be shown at once."""

    handler: Handler
    _said: ProgramReply = field(default_factory=ProgramReply)
    _all: list[str] = field(default_factory=list)
    _line: str = ""

    def feed(self, piece: str) -> str:
        self._all.append(piece)
        *lines, self._line = (self._line + piece).split("\n")
        return "".join(self._take(line) for line in lines)

    def finish(self) -> str:
        """The end of the output; what is still to be shown."""
        shown = self._take(self._line)
        if not self._said.known:  # one object over many lines
            shown += self._take("".join(self._all))
        return shown

    @property
    def said(self) -> ProgramReply:
        raw = "".join(self._all)
        if self._said.known or raw.lstrip()[:1] in {"{", "["}:
            return self._said
        return ProgramReply(text=plain_text(raw), known=True)  # the user has asked for text

    def _take(self, line: str) -> str:
        if line.lstrip()[:1] not in {"{", "["}:
            return ""
        try:
            value = json.loads(line)
        except ValueError:
            return ""
        events = value if isinstance(value, list) else [value]
        try:
            return "".join(self.handler(self._said, event) for event in events if isinstance(event, dict))
        except (AttributeError, KeyError, TypeError):
            return ""  # the shape of another version: what is missing then is said at the end


def claude(said: ProgramReply, event: Event) -> str:
    """`claude -p --output-format stream-json` (or json: the last of these events alone)."""
    kind = event.get("type")
    if kind == "system" and event.get("subtype") == "init":
        said.model = str(event.get("model") or "")
    elif kind == "stream_event":
        delta = event["event"].get("delta") or {}
        if delta.get("type") == "text_delta":
            return str(delta["text"])
    elif kind == "result":
        said.known = True
        usage = event.get("usage") or {}
        said.usage = _usage(
            usage.get("input_tokens"),
            usage.get("output_tokens"),
            usage.get("cache_read_input_tokens"),
            usage.get("cache_creation_input_tokens"),
            event.get("total_cost_usd"),
        )
        models = event.get("modelUsage") or {}
        said.model = said.model or max(
            models, key=lambda name: models[name].get("outputTokens", 0), default=""
        )
        words = event.get("result")
        if event.get("is_error") or not isinstance(words, str):
            said.error = str(words or event.get("errors") or event.get("subtype") or "no result")
        else:
            said.text = words
        said.stop = _STOPS.get(str(event.get("stop_reason")), "end")
    return ""


_STOPS: dict[str, Stop] = {"max_tokens": "length", "refusal": "refusal"}


def codex(said: ProgramReply, event: Event) -> str:
    """`codex exec --json`: the last message is the reply; errors count unless the turn is completed after all."""
    kind = event.get("type")
    if kind == "item.completed":
        item = event["item"]
        if item.get("type") == "agent_message":
            said.known = True
            said.text = str(item["text"])
    elif kind == "turn.completed":
        said.known, said.error = True, ""
        usage = event.get("usage") or {}
        cached = _whole_number(usage.get("cached_input_tokens"))
        said.usage = _usage(
            _whole_number(usage.get("input_tokens")) - cached, usage.get("output_tokens"), cached, 0
        )
    elif kind in {"turn.failed", "error"}:
        said.known = True
        said.error = str((event.get("error") or event)["message"])
    return ""


def gemini(said: ProgramReply, event: Event) -> str:
    """`gemini --output-format stream-json`, or json: one object with `response` or `error`."""
    kind = event.get("type")
    if kind == "init":
        said.model = str(event.get("model") or "")
    elif kind == "message" and event.get("role") == "assistant":
        said.known = True
        said.text += str(event["content"])
        return str(event["content"])
    elif kind == "result" or "response" in event or (kind is None and "error" in event):
        said.known = True
        said.text = str(event.get("response") or said.text)
        if event.get("error"):
            said.error = str(event["error"]["message"])
        stats = event.get("stats") or {}
        cached = _whole_number(stats.get("cached"))
        if "input_tokens" in stats:
            said.usage = _usage(stats["input_tokens"] - cached, stats.get("output_tokens"), cached, 0)
        for name, one in (stats.get("models") or {}).items():
            tokens = one["tokens"]
            cached = _whole_number(tokens.get("cached"))
            said.model = said.model or name
            used = _usage(
                _whole_number(tokens.get("prompt")) - cached,
                _whole_number(tokens.get("candidates")) + _whole_number(tokens.get("thoughts")), cached, 0,
            )  # fmt: skip
            if kind is None and used is not None:
                said.usage = used + (said.usage or Usage())
    return ""


def _usage(
    put_in: object, out: object, cache_read: object, cache_write: object, dollars: object = None
) -> Usage | None:
    """None where nothing was counted: a program that does not know says 0."""
    cost = float(dollars) if isinstance(dollars, int | float) and dollars > 0 else None
    usage = Usage(
        _whole_number(put_in),
        _whole_number(out),
        _whole_number(cache_read),
        _whole_number(cache_write),
        dollars=cost,
    )
    return usage if usage.total else None


def _whole_number(value: object) -> int:
    return max(0, value) if isinstance(value, int) else 0


@dataclass(frozen=True)
class Program:
    """What is known of a program.

    adds: arguments, as the shell reads them, each left out where one of the words after it is in the command.
    before: what the shell reads before the command. install: how to get it. login: how to log in.
    handler: how the events that it prints are read; None for plain text. counts: where it says on standard
    error how many tokens went in and came out.
    agent: it could change files. It is told not to, and runs in an empty folder, where no file of a repository
    can give it instructions; unless one of the words `here` says that the user wants it at work in this one.
    drops: environment variables that keep it from starting.
    """

    install: str
    login: str = ""
    adds: tuple[tuple[str, frozenset[str]], ...] = ()
    before: str = ""
    only: str = ""
    handler: Handler | None = None
    counts: tuple[str, str] | None = None
    agent: bool = False
    here: frozenset[str] = frozenset()
    drops: tuple[str, ...] = ()


def _unless(*words: str) -> frozenset[str]:
    return frozenset(words)


_CLAUDE_TOOLS = _unless(
    "--tools", "--allowedTools", "--allowed-tools", "--permission-mode", "--dangerously-skip-permissions"
)
_CODEX_SANDBOX = _unless(
    "-s", "--sandbox", "--full-auto", "--yolo", "--dangerously-bypass-approvals-and-sandbox"
)

PROGRAMS: Mapping[str, Program] = {
    "claude": Program(
        install="npm install -g @anthropic-ai/claude-code",
        login="start `claude` once and log in",
        adds=(
            ("-p", _unless("-p", "--print")),
            ("--output-format stream-json --verbose --include-partial-messages", _unless("--output-format")),
            # "" takes its own tools away but not those of the MCP servers in a person's configuration
            ('--tools ""', _CLAUDE_TOOLS),
            ("--strict-mcp-config", _unless("--strict-mcp-config", "--mcp-config")),
            (
                "--system-prompt 'Answer the request that you are given.'",
                _unless("--system-prompt", "--system-prompt-file", "--append-system-prompt"),
            ),
            (
                "--no-session-persistence",
                _unless("--no-session-persistence", "-c", "--continue", "-r", "--resume"),
            ),
        ),
        handler=claude,
        agent=True,
        here=_CLAUDE_TOOLS | {"--add-dir", "-c", "--continue", "-r", "--resume"},
        drops=("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT"),  # it refuses to run inside another one
    ),
    "codex": Program(
        install="npm install -g @openai/codex",
        login="run `codex login`",
        adds=(
            ("exec", _unless("exec", "e")),
            ("--json", _unless("--json", "--experimental-json")),
            ("--sandbox read-only", _CODEX_SANDBOX),
            ("--skip-git-repo-check", _unless("--skip-git-repo-check")),
            ("--ephemeral", _unless("--ephemeral", "resume")),
        ),
        handler=codex,
        agent=True,
        here=_CODEX_SANDBOX | {"-C", "--cd", "--add-dir", "resume"},
    ),
    "gemini": Program(
        install="npm install -g @google/gemini-cli",
        login="start `gemini` once and log in",
        adds=(("--output-format stream-json", _unless("-o", "--output-format")),),
        before="GEMINI_CLI_TRUST_WORKSPACE=true",  # without it, it stops in a folder that it does not know
        handler=gemini,
        agent=True,  # without a user it refuses tools that change something
        here=_unless("-y", "--yolo", "--approval-mode", "--include-directories", "-r", "--resume"),
    ),
    "llm": Program(
        install="pipx install llm",
        login="run `llm keys set`",
        adds=(("-u", _unless("-u", "--usage")),),
        counts=(r"Token usage: ([\d,]+) input", r"Token usage: [\d,]+ input, ([\d,]+) output"),
    ),
    "ollama": Program(
        install="see https://ollama.com/download",
        adds=(
            ("--nowordwrap", _unless("--nowordwrap")),
            ("--hidethinking", _unless("--hidethinking")),
            ("--verbose", _unless("--verbose")),
        ),
        only="run",
        counts=(r"prompt eval count:\s+(\d+)", r"(?m)^\s*eval count:\s+(\d+)"),
    ),
    "aichat": Program(install="cargo install aichat"),
}
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


def full_command(command: str) -> str:
    """The command line that is really run for `command`: with the arguments that make a known program answer,
    in a form that can be read, and change nothing; those that the user has given otherwise are left alone."""
    words = simple_words(command)
    known = known_program(command)
    if known is None or (known.only and known.only not in words):
        return command
    given = {word.partition("=")[0] for word in words}
    line = command.strip()
    if known is PROGRAMS["gemini"] and words[-1] in {"-p", "--prompt"}:
        line += " ''"  # it takes a value, and joins what it reads to it
    line = " ".join([line, *(text for text, unless in known.adds if not given & unless)])
    return f"{known.before} {line}" if known.before else line


def known_program(command: str) -> Program | None:
    """The known program that `command` runs, and nothing else."""
    return next((PROGRAMS.get(PurePath(word).name) for word in simple_words(command)), None)


def runs_in_empty_folder(command: str) -> bool:
    """Whether `command` is to run in an empty folder: an agent that is not told to work on files of this one."""
    known = known_program(command)
    if known is None or not known.agent:
        return False
    words = simple_words(command)
    return not (
        {word.partition("=")[0] for word in words} & known.here or any(map(_names_a_file_here, words))
    )


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
    while words and _ASSIGNMENT.match(words[0]):
        del words[0]
    return words


def reported_usage(known: Program | None, said: str) -> Usage | None:
    """The usage that a program has said on standard error."""
    if known is None or known.counts is None:
        return None
    found = [re.findall(pattern, said) for pattern in known.counts]
    if not all(found):
        return None
    tokens_in, tokens_out = (int(numbers[-1].replace(",", "")) for numbers in found)
    return Usage(tokens_in, tokens_out)


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


def _names_a_file_here(word: str) -> bool:
    if word.startswith(("/", "~")) or not ("/" in word or "." in word):
        return False
    try:
        return Path(word).exists()
    except OSError:  # too long for a name
        return False
