"""The programs that people use as `command:CMD`: what they need to be told to answer and do nothing else."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path, PurePath

from repoagent.dataclass import dataclass
from repoagent.llm.model import Usage
from repoagent.llm.providers.command.events import Handler, claude, codex, gemini


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
        agent=True,  # where nobody can say yes to it, a tool that changes something is refused
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


def completed(command: str) -> str:
    """The command line that is really run for `command`: with the arguments that make a known program answer,
    in a form that can be read, and change nothing; those that the user has given otherwise are left alone."""
    words = simple_words(command)
    known = program(command)
    if known is None or (known.only and known.only not in words):
        return command
    given = {word.partition("=")[0] for word in words}
    line = command.strip()
    if known is PROGRAMS["gemini"] and words[-1] in {"-p", "--prompt"}:
        line += " ''"  # it takes a value, and joins what it reads to it
    line = " ".join([line, *(text for text, unless in known.adds if not given & unless)])
    return f"{known.before} {line}" if known.before else line


def program(command: str) -> Program | None:
    """The known program that `command` runs, and nothing else."""
    return next((PROGRAMS.get(PurePath(word).name) for word in simple_words(command)), None)


def apart(command: str) -> bool:
    """Whether `command` is to run in an empty folder: an agent that is not told to work on files of this one."""
    known = program(command)
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


def counted(known: Program | None, said: str) -> Usage | None:
    """The usage that a program has said on standard error."""
    if known is None or known.counts is None:
        return None
    found = [re.findall(pattern, said) for pattern in known.counts]
    if not all(found):
        return None
    tokens_in, tokens_out = (int(numbers[-1].replace(",", "")) for numbers in found)
    return Usage(tokens_in, tokens_out)


def named(command: str) -> str:
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
