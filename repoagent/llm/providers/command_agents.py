"""Claude Code and Codex as `command:CMD`: the arguments that limit each to answering, and the parsers of their output.

Output is plain text, or JSON events, one per line.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from repoagent.dataclass import dataclass
from repoagent.display_text import redact
from repoagent.llm.model import Stop, Usage

# CSI; OSC, DCS and the other strings up to BEL or ST; escapes of two and three characters; control characters.
_CONTROL = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"
    r"|\x1b[\]PX^_][^\x07\x1b\n]{0,8000}(?:\x07|\x1b\\)"
    r"|\x1b[ -/]+[0-~]|\x1b[0-OQ-WYZ\\`-~]"
    r"|[\x00-\x08\x0b\x0e-\x1f\x7f]"
)
_STOPS: dict[str, Stop] = {"max_tokens": "length", "refusal": "refusal"}


def plain_text(text: str) -> str:
    """`text` without control sequences and control characters."""
    return _CONTROL.sub("", text)


@dataclass
class ProgramReply:
    """The reply of a program.

    `error` is the program's own failure message. `known` is true if the reply could be identified in the output.
    """

    text: str = ""
    stop: Stop = "end"
    usage: Usage | None = None
    model: str = ""
    error: str = ""
    known: bool = False


Event = dict[str, Any]
Handler = Callable[[ProgramReply, Event], str]  # updates the reply by an event; returns text to show


class OutputReader:
    """Reads a program's output: events for `handler`, one per line; without a handler, the output is the reply."""

    def __init__(self, handler: Handler | None = None) -> None:
        self._handler = handler
        self._reply = ProgramReply()
        self._all = ""
        self._read = 0  # characters of the lines that were processed

    def texts(self, output: Iterable[str]) -> Iterator[str]:
        """Process all pieces of the output; yield the text to show, in whole lines."""
        for piece in output:
            self._all += piece
            yield from self._lines(self._all.rfind("\n", self._read) + 1)
        yield from self._lines(len(self._all))

    def _lines(self, end: int) -> Iterator[str]:
        lines, self._read = self._all[self._read : end], max(self._read, end)
        if self._handler is None:
            shown = plain_text(lines)
        else:
            shown = "".join(map(self._take, lines.split("\n")))
        if shown:
            yield shown

    def reply(self) -> ProgramReply:
        """The reply in the output so far."""
        events = self._handler is not None and self._all.lstrip()[:1] in {"{", "["}
        if events or self._reply.known:
            return self._reply
        return ProgramReply(plain_text(self._all), known=True)  # also if the command selects text output

    def _take(self, line: str) -> str:
        try:
            value = json.loads(line)
            events = value if isinstance(value, list) else [value]
            assert self._handler is not None
            return "".join(self._handler(self._reply, event) for event in events if isinstance(event, dict))
        except (ValueError, AttributeError, KeyError, TypeError):
            return ""  # the format of another version: `known` stays False if the reply is missing


def claude(reply: ProgramReply, event: Event) -> str:
    """Read an event of `claude -p --output-format stream-json` (or `json`) into `reply`; return the text to show."""
    kind = event.get("type")
    if kind == "system" and event.get("subtype") == "init":
        reply.model = str(event.get("model") or "")
    elif kind == "stream_event":
        delta = event["event"].get("delta") or {}
        if delta.get("type") == "text_delta":
            return str(delta["text"])
    elif kind == "result":
        reply.known = True
        counts = _counts(
            event,
            *("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"),
        )
        cost = event.get("total_cost_usd")
        dollars = float(cost) if isinstance(cost, int | float) and cost > 0 else None
        reply.usage = replace(Usage(*counts), dollars=dollars) if any(counts) else None
        reply.model = reply.model or next(iter(event.get("modelUsage") or {}), "")
        words = event.get("result")
        if event.get("is_error") or not isinstance(words, str):
            reply.error = str(words or event.get("errors") or event.get("subtype") or "no result")
        else:
            reply.text = words
        reply.stop = _STOPS.get(str(event.get("stop_reason")), "end")
    return ""


def codex(reply: ProgramReply, event: Event) -> str:
    """Read an event of `codex exec --json` into `reply`; return the text to show.

    The last message is the reply. An error counts unless the turn completes later.
    """
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
class CodingAgent:
    """How to run a coding agent so that it only answers.

    handler: reads the agent's events.
    install, login: instructions.
    adds: the arguments to add (in shell syntax), each with the words in the command that prevent this.
    drops: environment variables that prevent the agent from starting.
    """

    handler: Handler
    install: str
    login: str
    adds: tuple[tuple[str, str], ...]
    drops: tuple[str, ...] = ()


_CLAUDE_TOOLS = "--tools --allowedTools --allowed-tools --permission-mode --dangerously-skip-permissions"
_CODEX_SANDBOX = "-s --sandbox --full-auto --yolo --dangerously-bypass-approvals-and-sandbox"
_CLAUDE_PROMPTS = "--system-prompt --system-prompt-file --append-system-prompt"

AGENTS = {
    "claude": CodingAgent(
        claude,
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
        drops=("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT"),  # it refuses to run inside another one
    ),
    "codex": CodingAgent(
        codex,
        install="npm install -g @openai/codex",
        login="run `codex login`",
        adds=(
            ("exec", "exec e"),
            ("--json", "--json --experimental-json"),
            ("--sandbox read-only", _CODEX_SANDBOX),
            ("--skip-git-repo-check", "--skip-git-repo-check"),
            ("--ephemeral", "--ephemeral resume"),
        ),
    ),
}


def known_agent(command: str) -> CodingAgent | None:
    """The agent that `command` runs; None if it is another program or not a simple command."""
    return next((AGENTS.get(PurePath(word).name) for word in simple_words(command)), None)


def full_command(command: str) -> str:
    """The command line to run for `command`; for an agent, it includes the arguments in `adds`."""
    if (agent := known_agent(command)) is None:
        return command
    options = {word.partition("=")[0] for word in simple_words(command)}
    added = [text for text, unless in agent.adds if not options & {*unless.split()}]
    return " ".join([command.strip(), *added])


def simple_words(command: str) -> list[str]:
    """The words of a command without its leading assignments.

    Returns [] if the command needs a shell for a pipe, a redirection or a substitution.
    """
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


def masked_command(command: str) -> str:
    """`command` for display and logs, with possible keys masked."""
    masked = re.sub(r"(?<!\S)([A-Za-z_]\w*=)\S+", r"\1***", command)
    masked = re.sub(r"(?i)(--?[\w-]*(?:key|token|secret|password)[ =])\S+", r"\1***", masked)
    return redact(" ".join(masked.split()), {})
