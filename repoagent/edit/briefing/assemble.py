"""From what is known of an edit to the prompt and the tools: in which form, and with how much of each file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from repoagent.agent import Tool
from repoagent.dataclass import dataclass
from repoagent.edit.briefing import context
from repoagent.edit.briefing.compose import Gathered, prompt_for
from repoagent.edit.briefing.forms import (
    ASKED_LINES,
    FUNCTION_LINES,
    LOOSE,
    WHOLE_LINES,
    Asked,
    Form,
    choose,
    fits_whole,
    reminder,
)
from repoagent.edit.briefing.masking import masked_tool
from repoagent.edit.briefing.tools import (
    Workbench,
    files_tool,
    history_tool,
    neighbors_tool,
    outline_tool,
    read_limit,
    read_tool,
    recall_tool,
    search_tool,
    uses_tool,
)
from repoagent.edit.draft import Draft
from repoagent.edit.request import EditRequest
from repoagent.edit.small.excerpt import fence_mark, shown_text
from repoagent.edit.small.unasked import RENAMES
from repoagent.edit.small.windows import Window, answered_windows, find_windows, question
from repoagent.edit.verify.proposal import edit_tool
from repoagent.llm import estimate_tokens
from repoagent.memory import Memory
from repoagent.repo import Source
from repoagent.store.masking import mask


@dataclass(frozen=True)
class Prepared:
    """An edit that is ready to be asked for.

    `question`, where there is one, is to be asked first: which part of a long file the request is about; `located`
    then takes the answer. Without one the prompt is good as it is, with the whole files in it. A small model is asked
    for one file at a time: `prompts` has one for each. `reply_tokens`: how long a reply can reasonably be, where that
    is known: a small model that writes more goes round in circles.
    """

    bench: Workbench
    tools: tuple[Tool, ...]
    prompts: tuple[context.Prompt, ...]
    memories: dict[str, Memory]
    gathered: Gathered
    asked: Asked
    question: str = ""
    reply_tokens: int | None = None

    @property
    def reminder(self) -> str:
        """What a small model must read last, here and after each setback."""
        return self.bench.reminder

    @property
    def form(self) -> Form:
        return self.bench.form

    def located(self, answer: str) -> Prepared:
        """The same edit, with the parts that the answer to `question` names; unchanged when it names none."""
        return assembled(self.gathered, self.asked, answer) if self.question else self

    @property
    def blobs(self) -> dict[str, str]:
        """The hashes of the files that the request is about."""
        request = self.bench.request
        known = self.bench.draft.blobs()
        return {path: known[path] for path in (*request.paths, *request.read)}


def assembled(gathered: Gathered, asked: Asked, answer: str | None = None) -> Prepared:
    """The prompt and the tools. `answer` is that to the question which part of a file is meant.

    A model that is asked in short is a small one: it does better without a protocol to mind, and without what the
    repository says to assistants.
    """
    request, sources = gathered.request, gathered.sources
    edited = {path: data for path in request.paths if (data := sources[path].data) is not None}
    renames = RENAMES.search(request.instruction) is not None  # a name is used all over a file
    lines = ASKED_LINES if asked.form == "function" and not renames else WHOLE_LINES
    whole = {path: fits_whole(data, asked.output_tokens, lines) for path, data in edited.items()}
    windows = _windows(request, edited, whole, asked, answer) if asked.form in LOOSE else {}
    form = choose(asked.form, whole, windows)
    short = asked.is_short
    windows = windows if form == "function" else {}
    marks = {path: fence_mark(shown_text(sources[path], windows.get(path, ()))) for path in request.paths}
    bench = Workbench(
        gathered.worktree,
        request,
        Draft(sources),
        set(gathered.editable),
        gathered.why_not,
        form=form,
        short=short,
        windows=windows,
        fits=all(whole.values()),
        read_limit=read_limit(asked.window),
        # several files are asked for one at a time: each prompt has its own then
        reminder=reminder(form, request.paths, windows, marks)
        if short and (form not in LOOSE or len(request.paths) == 1)
        else "",
    )
    tools = tuple(masked_tool(tool, bench) for tool in ((edit_tool(bench),) if short else _tools(bench)))
    asks = answer is None and asked.form in LOOSE and form == "search"
    return Prepared(
        bench,
        tools,
        tuple(
            prompt_for(gathered, bench, tools, paths, {path: marks[path] for path in paths})
            for paths in ([(path,) for path in request.paths] if form in LOOSE else [request.paths])
        ),
        gathered.memories,
        gathered,
        asked,
        mask(_question(request, edited, whole)) if asks else "",
        _reply_tokens(sources, request.paths, windows)
        if form in LOOSE and len(edited) == len(request.paths)
        else None,
    )


def _reply_tokens(
    sources: Mapping[str, Source], paths: Sequence[str], windows: Mapping[str, Sequence[Window]]
) -> int:
    """Room for half as much again as the longest of what is asked for, and for an explanation."""
    longest = max(estimate_tokens(shown_text(sources[path], windows.get(path, ()))) for path in paths)
    return longest + longest // 2 + 400


def _windows(
    request: EditRequest,
    edited: Mapping[str, bytes],
    whole: Mapping[str, bool],
    asked: Asked,
    answer: str | None,
) -> dict[str, tuple[Window, ...]]:
    """The parts of files that are asked for instead of the whole."""
    limit = max(20, min(WHOLE_LINES, asked.output_tokens // 16))
    found: dict[str, tuple[Window, ...]] = {}
    for path, data in edited.items():
        short = asked.form == "whole" or fits_whole(data, asked.output_tokens, FUNCTION_LINES)
        if whole[path] and (short or RENAMES.search(request.instruction)):
            continue
        places = [
            (target.first, target.last or target.first)
            for target in request.targets
            if target.path == path and target.first is not None
        ]
        parts = find_windows(path, data, request.instruction, places, limit)
        if not parts and answer is not None and not whole[path]:
            parts = answered_windows(path, data, answer, limit)
        if parts:
            found[path] = parts
    return found


def _question(request: EditRequest, edited: Mapping[str, bytes], whole: Mapping[str, bool]) -> str:
    asked = [question(path, edited[path], request.instruction) for path, fits in whole.items() if not fits]
    return "\n\n".join(filter(None, asked))


def _tools(bench: Workbench) -> tuple[Tool, ...]:
    looking = (
        read_tool, files_tool, search_tool, outline_tool, history_tool, neighbors_tool, uses_tool, recall_tool
    )  # fmt: skip
    return edit_tool(bench), *(tool(bench) for tool in looking)
