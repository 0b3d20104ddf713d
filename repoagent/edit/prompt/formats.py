"""The formats of an edit: diff, SEARCH/REPLACE, whole file, whole function.

A prompt requests one format, but any is accepted, and all become the same validated diff."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from repoagent.dataclass import dataclass
from repoagent.patch.model import decode_text
from repoagent.patch.refusal import PatchRefused

if TYPE_CHECKING:
    from repoagent.edit.small_models.excerpts import FilePart

Form = Literal["diff", "search", "whole", "function"]
FORMS: tuple[Form, ...] = ("diff", "search", "whole", "function")
LOOSE: frozenset[Form] = frozenset({"whole", "function"})  # a fence needs no name: its content decides

RETRIES = 2  # refusals in a row before another format is requested
WHOLE_LINES = 150  # longest file to rewrite as a whole
ASKED_LINES = 60  # the same, if the model can be asked which part of the file to change
FUNCTION_LINES = 40  # longest file to rewrite as a whole although a part would do
OUTPUT_TOKENS = 16_000  # of one reply, unless the model has a smaller limit
REMINDS = "\nAnswer with "  # the beginning of `reminder`


@dataclass(frozen=True)
class AnswerFormat:
    """The answer format to request, and the model's limits."""

    form: Form = "diff"
    short: bool | None = None  # leave the protocol out, for a small model; None to decide by `form`
    output_tokens: int = OUTPUT_TOKENS
    window: int | None = None  # tokens of input and output together, None if unknown
    native: bool = False  # whether look-ups are native tool calls

    @property
    def is_short(self) -> bool:
        return self.form in LOOSE if self.short is None else self.short or self.form in LOOSE


def fits_whole(data: bytes, output_tokens: int, lines: int = WHOLE_LINES) -> bool:
    """Whether a file is short enough to be rewritten as a whole, with room to grow by a third."""
    from repoagent.llm.usage import estimate_tokens

    text = decode_text(data)
    if text is None:
        return False
    return len(text.lines) <= lines and estimate_tokens("\n".join(text.lines)) * 1.3 + 200 < output_tokens


def choose_form(form: Form, whole: Mapping[str, bool], windows: Iterable[str]) -> Form:
    """The answer format to request. A `form` other than a whole file or a function is returned unchanged.

    Otherwise, the result is a function if `windows` has parts, a whole file if all files fit (`whole` says so by path),
    and SEARCH/REPLACE if a file can be rewritten neither way.
    """
    if form not in LOOSE:
        return form
    parts = set(windows)
    if not all(fits or path in parts for path, fits in whole.items()):
        return "search"
    return "function" if parts else "whole"


def is_rename(instruction: str) -> bool:
    """Whether the instruction asks for a rename, which may touch lines all over a file."""
    return re.search(r"\brenam", instruction, re.IGNORECASE) is not None


def form_after(form: Form, refusals: int, *, fits: bool) -> Form:
    """The answer format to request after `refusals` refused edits in a row.

    It never changes from whole text to blocks, because a small model copies the example of a block into its answer.
    `fits` says that the files may be rewritten as a whole.
    """
    for _ in range(refusals // RETRIES):
        if form == "diff":
            form = "search"
        elif fits:
            form = "whole"
    return form


def reminder(
    form: Form,
    paths: Sequence[str],
    parts: Sequence[FilePart] = (),
    mark: str = "```",
    *,
    plain: bool = False,
) -> str:
    """The last line of a prompt for a small model, which follows best what it read last.

    `parts` of the file are requested instead of all of it, in a fence of `mark`. The line does not ask for a sentence
    before the fence, nor say "a fence that begins with": Qwen2.5-Coder-1.5B then sometimes wrote only the sentence, or
    put the fence at its end.
    """
    if form == "diff":
        return f"{REMINDS}the diff between the lines ```diff and ```, and nothing else.\n"
    labels = [" and ".join(part.names) if 0 < len(part.names) < 4 else "part" for part in parts]
    fencing = ", each in a fence of its own," if len(parts) > 1 else ""
    wanted = f"the whole new {' and '.join(labels or paths)}{fencing}"
    if form == "search":
        wanted = "the SEARCH/REPLACE blocks"
    if plain:
        return f"{REMINDS}{wanted} with this change, in a code block.\n"
    lines = " and ".join(f"{mark}{path}" for path in paths)
    return f"{REMINDS}{wanted} between the lines {lines} and {mark}, and nothing else.\n"


def fence_grammar(path: str, mark: str) -> str:
    """The grammar (GBNF, for llama.cpp) of an answer that is a single fence. Without a `path`, the fence may name a
    language."""
    char = mark[0]
    opening = json.dumps(f"{mark}{path}\n", ensure_ascii=False) if path else f'"{mark}" [a-z]* "\\n"'
    return (
        f'root ::= {opening} line+ "{mark}"\n'
        f'line ::= ([^{char}\\n] [^\\n]*)? "\\n" | "{char}" [^{char}\\n] [^\\n]* "\\n"\n'
    )


UNCHANGED = "Not applied: your answer is the same as the file. Make the change."
_SHORT = {
    "elided": "Not applied: a line is a placeholder for omitted lines. Write every line.",
    "empties-file": "Not applied: most of the lines are missing. Write every line.",
    "cut-off": "Not applied: the answer ends before its last line.",
    "no-change": UNCHANGED,
    "overlap": "Not applied: the same lines appear twice, in two versions. Send each once.",
    "unknown-file": "Not applied: your answer does not say which file it is.",
    "already-applied": "Not applied: the file already has this change.",
    "indentation": "Not applied: the lines are not indented as in the file.",
}


def short_refusal(error: PatchRefused) -> str:
    """The reasons for a refusal, for a small model: one sentence each, without advice about other formats."""
    sentences = (
        _SHORT.get(problem.reason) or f"Not applied: {problem.text.split(' Check the added')[0]}"
        for problem in error.problems
    )
    return "\n".join(dict.fromkeys(sentences))
