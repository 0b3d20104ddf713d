"""The prompt of an edit as named blocks, ordered for the cache: what changes least comes first."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files

from repoagent.dataclass import dataclass
from repoagent.display_text import plural
from repoagent.edit.prompt.formats import REMINDS
from repoagent.edit.request import EditRequest
from repoagent.errors import Refused, UsageError
from repoagent.git.files import Source
from repoagent.git.worktree import Facts
from repoagent.llm.conversation import Turn, to_messages
from repoagent.llm.model import Message, Part, Request, ToolSchema, fence
from repoagent.llm.usage import estimate_tokens, estimate_usage
from repoagent.patch.model import decode_text
from repoagent.storage.secrets import mask, without_secrets

NEIGHBORS = "These often change with it, or are named like it; read one only if you need it"
LANGUAGES, SUBJECTS = 4, 4  # of the repository, in the prompt
MOST_NAMED = 8  # the rules repeat the names of the files to edit if there are at most this many
WARMER, WARMEST = 0.3, 0.8  # temperature of a retry (per attempt, maximum): at 0 the answer would be the same
CHECK_LINES, CHECK_CHARACTERS = 24, 900  # of the output of a failed check, for a small model
_NOISE = re.compile(  # tracebacks, and the output of the test runners of node and Python
    r"\s*(?:Traceback |File \"|at \S|\^+\s*$|[-=]{5,}|Ran \d|TAP version|#\s|\d+\.\.\d+$|\.\.\.$|---$|ok \d|not ok \d|"
    r"\S.*\((?:file:|node:)|(?:duration_ms|location|type|failureType|code|name|operator|stack|error|expected|actual|"
    r"generatedMessage):\s*(?:\|-|'[^']*'|[\d.]+|true|false)?\s*$|\d+: \d+$)"
)


@dataclass(frozen=True)
class Prompt:
    """The system message and the first user message, as parts.

    The last part of the user message is the request, which ends in `reminder`.
    """

    system: tuple[Part, ...]
    opening: tuple[Part, ...]
    reminder: str = ""
    afresh: bool = False
    grammar: str = ""  # of an answer in the first requested form
    tools: tuple[ToolSchema, ...] = ()  # native tools

    def request(
        self,
        turns: Sequence[Turn],
        nonce: str,
        *,
        key: str,
        max_output_tokens: int,
        messages_of: Callable[[Sequence[Turn], str], Sequence[Message]] = to_messages,
    ) -> Request:
        """The request for the next reply after `turns`, the first of which is the user's request. `messages_of`
        converts turns to messages."""
        if self.afresh and turns[-1].role == "observation" and turns[-1].meta.get("ok") == "no":
            note = self._retry_note(turns)
            message = Message("user", (*self.opening[:-1], replace(self.opening[-1], text=note)))
            grammar = self.grammar if note.endswith(self.reminder) else ""
            return Request(self.system, (message,), max_output_tokens, key, grammar, retry_temperature(turns))
        first, *later = messages_of(turns, nonce)
        messages = [Message("user", (*self.opening, *first.parts[1:])), *later]
        if len(turns) > 1:
            *before, last = messages[-1].parts
            messages[-1] = Message("user", (*before, replace(last, cache=True)))
        return Request(self.system, tuple(messages), max_output_tokens, key, self.grammar, tools=self.tools)

    def alone(self, *, key: str, max_output_tokens: int, temperature: float | None) -> Request:
        """The request without the conversation."""
        message = Message("user", self.opening)
        return Request(self.system, (message,), max_output_tokens, key, self.grammar, temperature)

    def _retry_note(self, turns: Sequence[Turn]) -> str:
        """The request and the reasons for the refusal of the last reply."""
        last = max(number for number, turn in enumerate(turns) if turn.role != "observation")
        text, reminder = "", self.reminder
        for turn in turns[last + 1 :]:
            if turn.meta.get("ok") != "no":
                continue
            reason, mark, rest = turn.text.rpartition(REMINDS)
            reminder = f"{mark}{rest}\n" if mark else reminder
            reason = (reason if mark else rest).strip()
            is_output = turn.meta.get("kind") in {"check", "hook"}
            text += f"{fence(first_lines(reason), 'output') if is_output else reason}\n"
        request = self.opening[-1].text.removesuffix(self.reminder)
        return f"{request}\nAn earlier answer was wrong:\n{text}{reminder}"


def first_lines(output: str) -> str:
    """The first lines of a check's output, without traceback frames and the noise of test runners."""
    lines = [line for line in output.split("\n") if line.strip() and not _NOISE.match(line)]
    return "\n".join(lines[:CHECK_LINES])[:CHECK_CHARACTERS]


def retry_temperature(turns: Sequence[Turn]) -> float:
    return min(WARMER * sum(turn.role == "assistant" for turn in turns), WARMEST)


def prompt_text(name: str) -> str:
    return (files("repoagent.edit") / "prompts" / f"{name}.md").read_text(encoding="utf-8")


def request_key(instruction: str, blobs: Mapping[str, str], turn: int) -> str:
    """A key for a question, independent of the prompt's wording; recorded replies are looked up by it."""
    return json.dumps(
        {"request": instruction, "files": dict(sorted(blobs.items())), "turn": turn},
        ensure_ascii=False,
        sort_keys=True,
    )


def with_cache_breakpoint(parts: Sequence[Part], worth: int = 1) -> list[Part]:
    """The non-empty `parts`, with a cache breakpoint after the last one if `worth` is not 0."""
    filled = [part for part in parts if part.text]
    if filled and worth:
        filled[-1] = replace(filled[-1], cache=True)
    return filled


def repository_line(facts: Facts) -> str:
    """The branch and the most frequent languages, which rarely change."""
    languages = [name for name, _ in facts.languages if not name.startswith(".")][:LANGUAGES]
    return "; ".join(filter(None, [f"branch {facts.branch or '(detached HEAD)'}", ", ".join(languages)]))


def subjects_block(facts: Facts) -> str:
    text = "\n".join(facts.subjects[:SUBJECTS])
    return f"Last commit subjects:\n{fence(text, 'subjects')}\n\n" if text else ""


def facts_block(facts: Facts) -> str:
    return f"{repository_line(facts)}\n{subjects_block(facts)}".strip()


def rules_block(request: EditRequest, editable: Collection[str]) -> str:
    """The rules in the prompt: which files the model may change, and the check that will run."""
    further = sorted(set(editable) - set(request.paths))
    own = ", ".join(map(_code, request.paths)) if len(request.paths) <= MOST_NAMED else "the files to edit"
    if request.scope == "repo":
        except_read = f" (not {', '.join(map(_code, request.read))})" if request.read else ""
        may = f"You may change {own}, any other file that you have read{except_read}, and create files."
    else:
        more = f" and, after reading them, {', '.join(map(_code, further))}" if further else ""
        new = "files" if request.create else "a file that the request names"
        may = (
            f"You may change {own}{more}, and create {new}. You may read other files but not change them. If the "
            "request needs more, change nothing: `<reject>` it and name those files. Name mere follow-ups (tests, "
            "docs, a changelog) in `<finish>`."
        )
    lines = ["Rules of this run:", may]
    if request.check is not None and not request.dry_run:
        done = "kept" if request.commit.no_commit else "committed"
        advice = "If a test pins the old behaviour, change it too."
        if request.scope != "repo":
            kind = "a test that pins the old behaviour and that you may not change"
            advice = f"If it fails for {kind}, `<reject>` and name it."
        command = _code(without_secrets(request.check.command))
        lines.append(f"After your edit, {command} runs; the edit is {done} only if that passes. {advice}")
    return "\n".join(lines) + "\n\n"


def _code(text: str) -> str:
    """A path or a command in backticks, or in quotes if it contains a backtick."""
    return f"`{text}`" if text.isprintable() and "`" not in text else quote_path(text)


def model_text(data: bytes) -> str:
    """The text of a file as shown to a model: plain newlines, U+FFFD for undecodable bytes, and masked secrets. Raises
    Refused for a binary file."""
    text = decode_text(data)
    if text is None:
        raise Refused("this file is binary; only text files can be shown and edited")
    whole = "\n".join(text.lines) + ("\n" if text.final_newline and text.lines else "")
    return mask(whole.encode("utf-8", "replace").decode() if text.errors != "strict" else whole)


def file_block(source: Source, role: str) -> str:
    """The block of one file, in a fence that its content cannot close."""
    name = name_in_prose(source.path)
    if source.data is None:
        return f"File {name} ({role}) does not exist yet: create it.\n\n"
    text = model_text(source.data)
    count = text.count("\n") + (not text.endswith("\n") and bool(text))
    remarks = [plural(count, "line")]
    if text and not text.endswith("\n"):
        remarks.append("no newline at the end")
    label = f"file path={quote_path(source.path)}"
    return f"File {name} ({role}; {', '.join(remarks)}):\n{fence(text, label)}\n\n"


def name_in_prose(path: str) -> str:
    """A path for use in prose, in quotes if it has unprintable characters."""
    return path if path.isprintable() else quote_path(path)


def quote_path(path: str) -> str:
    """A path in double quotes, on one line."""
    return json.dumps(path, ensure_ascii=False)


def request_block(request: EditRequest) -> str:
    """The request, with the lines and symbols that the user named."""
    parts = []
    for target in request.targets:
        name = name_in_prose(target.path)
        if target.symbol:
            lines = f" (lines {target.first}-{target.last})" if target.first else ""
            parts.append(f"{target.symbol} in {name}{lines}")
        elif target.first:
            parts.append(f"lines {target.first}-{target.last} of {name}")
    about = f"\nThe request is about: {'; '.join(parts)}.\n" if parts else ""
    return f"Request:\n{request.instruction.strip()}\n{about}"


def check_fits(request: Request, context_tokens: int | None) -> None:
    """Raise UsageError if the prompt exceeds the model's context window."""
    if context_tokens is None:
        return
    needed = estimate_usage(request).input
    if needed > context_tokens:
        parts = [*request.system, *(part for message in request.messages for part in message.parts)]
        largest = max(parts, key=lambda part: part.media.tokens if part.media else estimate_tokens(part.text))
        raise UsageError(
            f"the prompt has about {needed:,} tokens but the model accepts only {context_tokens:,}; "
            f"the largest part is {largest.name or 'a turn'}: name fewer files, or use a model with a larger window."
        )


def quoted_block(title: str, text: str, tag: str = "") -> str:
    """A block of untrusted text, in a fence, so that none of it can pass for the protocol or a turn."""
    if not text.strip():
        return ""
    block = fence(text.strip() + "\n", tag or title.lower())
    return f"{title}:\n{block.strip()}\n\n"
