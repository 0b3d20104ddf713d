"""What was said in an exchange, in a few lines: words, reasons and failures, no code."""

from __future__ import annotations

import re
from collections.abc import Iterator

from repoagent.llm.conversation import Turn
from repoagent.llm.quoting import without_thought
from repoagent.memory.turns.exchanges import Exchange

WORDS = 400  # characters of what a model said, and of a reason
REQUEST = 400
_READ = 8_000  # characters of a reply without its code: no more of it is looked at
_FENCED = re.compile(r"(?ms)^(`{3,}|~{3,})[^\n]*\n.*?(?:^\1[ \t]*$|\Z)")
_BARE_DIFF = re.compile(r"(?ms)^(?:diff --git |--- \S+\n\+\+\+ ).*?(?=^[^-+ @\\\n]|\Z)")
_NOTE = re.compile(r"<note>[^<]*</note>")
_TAG = re.compile(r"</?[a-z]+(?: [^<>]*)?/?>")
_NOT_ACCEPTED = "The person did not accept the change: "
_OUTPUT, _AFTER = "Its output:\n", "\n\nThe files are as they were"
_FRAME = re.compile(  # of a traceback, or decoration of a test runner
    r"\s*(?:Traceback |File \"|at \S|\^+\s*$|[-=_ ]{5,}|=+ .* =+$|\.+[.FEsx]*(?:\s*\[.*\])?$)"
)


def heading(one: Exchange) -> str:
    """The request with its day and what came of it, on one line."""
    commit = f" as {one.commit[:12]}" if one.commit else ""
    outcome = f" ({one.state}{commit})" if one.state else ""
    return f"- {one.time[:10] or 'some day'}: {cut(one.request, REQUEST)}{outcome}"


def lines(one: Exchange) -> list[str]:
    """What was said after the request, a line for each turn that says something."""
    return list(_lines(one))


def _lines(one: Exchange) -> Iterator[str]:
    said = [turn for turn in one.turns if turn.role == "assistant"]
    for turn in one.turns[1:]:
        if turn.role == "assistant":
            last = turn is said[-1]
            if text := cut(words(turn.text), WORDS if last else WORDS // 2):
                yield f"  the model: {text}"
        elif turn.role == "observation" and (reason := reason_of(turn)):
            yield f"  the person: {reason}"
        elif turn.role == "observation" and (failure := failure_of(turn)):
            yield f"  the {turn.meta.get('kind', 'check')}: {failure}"


def words(reply: str) -> str:
    """The prose of a model's reply, with its commit message; code, patches, notes and what it asked for left out."""
    text = _FENCED.sub("\n", without_thought(reply))[:_READ]
    text = _BARE_DIFF.sub("\n", text)
    return " ".join(_TAG.sub(" ", _NOTE.sub(" ", text)).split())


def reason_of(turn: Turn) -> str:
    """Why the person did not take a change; "" for other turns, and where no reason was given."""
    if turn.meta.get("kind") != "person" or turn.meta.get("ok") != "no":
        return ""
    said = turn.text.partition(_NOT_ACCEPTED)[2] or turn.text
    return cut(said.partition("\n")[0], WORDS)


def failure_of(turn: Turn) -> str:
    """The line of a failed check's or hook's output that says most; "" for other turns."""
    if turn.meta.get("kind") not in {"check", "hook"} or turn.meta.get("ok") != "no":
        return ""
    return failing_line(turn.text)


def failing_line(text: str) -> str:
    """The first line of a failure that is no frame of a traceback and no decoration; one that names an error first."""
    output = text.partition(_OUTPUT)[2].partition(_AFTER)[0] or text
    told = [line.strip() for line in output.split("\n") if line.strip() and not _FRAME.match(line)]
    named = (line for line in told if re.search(r"(?i)\b\w*(?:error|exception|fail(?:ed|ure)?)\b", line))
    return cut(next(named, told[0] if told else ""), WORDS // 2)


def cut(text: str, most: int) -> str:
    """`text` on one line of at most `most` characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"
