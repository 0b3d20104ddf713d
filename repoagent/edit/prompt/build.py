"""Build the prompt and the tools of an edit: which answer format, and how much of each file.

Keys and tokens are masked here on their way to a model. File contents are masked where they are shown
(`blocks.shown`); only the patches that come back are unmasked, because they must match the real bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace

from repoagent.agent.actions import Action, Observation
from repoagent.agent.native_tools import schemas
from repoagent.agent.parse_reply import protocol_text
from repoagent.agent.state import EDIT, Tool
from repoagent.config.settings import Settings
from repoagent.dataclass import dataclass
from repoagent.edit.guards.off_limits import WhyNot
from repoagent.edit.patch_tool import edit_tool
from repoagent.edit.prompt import blocks
from repoagent.edit.prompt.blocks import Prompt
from repoagent.edit.prompt.formats import (
    ASKED_LINES,
    FUNCTION_LINES,
    LOOSE,
    WHOLE_LINES,
    AnswerFormat,
    Form,
    choose_form,
    fence_grammar,
    fits_whole,
    reminder,
)
from repoagent.edit.prompt.instruction_files import ContextFiles, context_parts
from repoagent.edit.prompt.large_files import FileContext, long_files
from repoagent.edit.prompt.relevance import Touched
from repoagent.edit.request import Draft, EditRequest
from repoagent.edit.small_models.code_repairs import RENAMES
from repoagent.edit.small_models.excerpts import (
    Window,
    answered_windows,
    excerpt,
    fence_mark,
    find_models,
    find_windows,
    question,
    shown_text,
    whole_text,
)
from repoagent.edit.tools import (
    ToolContext,
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
from repoagent.git.facts import Facts
from repoagent.git.files import Source
from repoagent.git.worktree import WorkTree
from repoagent.llm.model import Part
from repoagent.llm.usage import estimate_tokens
from repoagent.memory.identity.record import Memory
from repoagent.storage.secrets import mask, unknown_in, unmask


def masked_prompt(prompt: Prompt) -> Prompt:
    """The prompt with keys and tokens masked."""
    return replace(prompt, system=_masked(prompt.system), opening=_masked(prompt.opening))


def masked_tool(tool: Tool, tool_context: ToolContext) -> Tool:
    """The tool with its output masked, and with the patches that it gets unmasked."""

    def perform(action: Action) -> Observation:
        if tool.name == EDIT:
            action = replace(action, body=unmask(action.body))
            if made_up := _made_up(action.body, tool_context):
                text = f"There is no {made_up}: write what the file shows, or another kind of placeholder."
                return Observation(EDIT, tool_context.sent_back(text), ok=False)
        seen = tool.perform(action)
        return replace(seen, text=mask(seen.text))

    return replace(tool, perform=perform)


def _made_up(patches: str, tool_context: ToolContext) -> str:
    """A placeholder of ours in the patches that stands for nothing and is in no file; "" for none."""
    files = [text.data for text in tool_context.draft.texts().values()]
    return next(
        (name for name in unknown_in(patches) if not any(name.encode() in data for data in files)), ""
    )


def _masked(parts: Iterable[Part]) -> tuple[Part, ...]:
    return tuple(replace(part, text=mask(part.text)) for part in parts)


@dataclass(frozen=True)
class PromptContext:
    """Everything gathered for a prompt, before the answer format is chosen."""

    worktree: WorkTree
    settings: Settings
    request: EditRequest
    why_not: WhyNot
    sources: dict[str, Source]
    editable: set[str]
    facts: Facts
    memories: dict[str, Memory]
    history: str
    neighbors: str
    remembered: str
    earlier: str = ""
    uses: str = ""
    recent: Mapping[str, tuple[Touched, ...]] = field(
        default_factory=dict
    )  # lines, of files that may be too long
    answer_format: AnswerFormat = field(default_factory=AnswerFormat)
    context_files: ContextFiles = field(default_factory=ContextFiles)


def prompt_for(
    context: PromptContext,
    tool_context: ToolContext,
    tools: Sequence[Tool],
    paths: Sequence[str],
    marks: Mapping[str, str],
    *,
    note: str = "",
    plain: bool = False,
) -> Prompt:
    """The prompt for `paths`, all of the request's or one of them; `note` follows the request. `plain` is another
    wording, for a model that repeated a bad answer.

    What changes least comes first: the repository, files for reading, what belongs to the edited files, these files,
    then what each commit or request changes. Cache breakpoints are where the next edit may share the beginning.
    """
    request, sources, form, short = context.request, context.sources, tool_context.form, tool_context.short
    native = context.answer_format.native and not short
    windows = {path: tool_context.windows[path] for path in paths if path in tool_context.windows}
    last = reminder(form, paths, windows, marks, plain=plain) if short else ""
    alone = form in LOOSE and len(windows.get(paths[0], ())) < 2
    if plain or (short and form in LOOSE):
        protocol = blocks.prompt_text("plain" if plain else form)
    elif short:
        protocol = blocks.prompt_text("short") + "\n" + blocks.prompt_text(form)
    else:
        protocol = blocks.prompt_text("edit") + "\n" + protocol_text(tools, native=native)
    repository = () if short else context_parts(context.context_files)
    facts = "" if short else blocks.repository_line(context.facts)
    subjects = "" if short else blocks.subjects_block(context.facts)
    rules = "" if short else blocks.rules_block(request, context.editable)
    history, neighbors = ("", "") if short else (context.history, context.neighbors)
    excerpts = _excerpts(request, sources, paths, windows) if form in LOOSE else {}
    texts = (
        protocol, facts, history, neighbors, context.remembered, subjects, context.earlier, context.uses, rules,
        request.instruction, note, last, *excerpts.values(), *(part.text for part in repository),
    )  # fmt: skip
    others = {path for path in request.paths if path not in paths}
    shown = [source for source in sources.values() if source.path not in others]
    long = long_files(
        [source for source in shown if source.path in {*paths, *request.read} - {*excerpts}],
        request,
        FileContext(
            context.settings.whole("edit.inline_limit"),
            context.answer_format.window,
            context.answer_format.output_tokens,
            sum(map(estimate_tokens, texts)),
            short,
            context.recent,
        ),
    )
    for path, block in long.items():
        tool_context.seen[path] = [*tool_context.seen.get(path, ()), *block.lines]
    excerpts |= {path: block.text for path, block in long.items()}
    shown.sort(key=lambda source: source.path in long)
    read, edited = (
        [
            Part(excerpts.get(source.path) or blocks.file_block(source, role), f"{name} {source.path}")
            for source in shown
            if source.path in group
        ]
        for group, role, name in (
            (set(request.read) - set(request.paths), "for reading only", "read"),
            (set(request.paths), "file to edit", "file"),
        )
    )
    opening = [
        *blocks.cached([Part(blocks.headed("The repository", facts), "facts"), *read], len(read)),
        *blocks.cached(
            [
                Part(blocks.quoted_block("History", history), "history"),
                Part(blocks.quoted_block(blocks.NEIGHBORS, neighbors, "neighbors"), "neighbors"),
                Part(blocks.quoted_block("Memory", context.remembered), "memory"),
                *edited,
                Part(blocks.prompt_text("large") + "\n" if long and not short else "", "long files"),
            ]
        ),
        Part(subjects, "subjects"),
        Part(blocks.quoted_block("Earlier", context.earlier), "earlier"),
        Part(blocks.quoted_block("Uses", context.uses), "uses"),
        Part(rules, "rules"),
        Part(blocks.request_block(request) + note + last, "request"),
    ]
    prompt = Prompt(
        tuple(blocks.cached([Part(protocol, "protocol"), *repository])),
        tuple(part for part in opening if part.text),
        last,
        short,
        fence_grammar("" if plain else paths[0], marks[paths[0]]) if alone else "",
        schemas(tools) if native else (),
    )
    return masked_prompt(prompt)


def _excerpts(
    request: EditRequest,
    sources: Mapping[str, Source],
    paths: Sequence[str],
    windows: Mapping[str, Sequence[Window]],
) -> dict[str, str]:
    found = {}
    for path in paths:
        source = sources[path]
        if path not in windows:
            found[path] = whole_text(source)
            continue
        models = find_models(path, source.data or b"", request.instruction, WHOLE_LINES)
        found[path] = excerpt(source, windows[path], models)
    return found


@dataclass(frozen=True)
class Prepared:
    """An edit that is ready for the model.

    `question`, if any, is asked first: which part of a long file the request is about; `located` takes the answer.
    Without one the prompt has the whole files. A small model gets one prompt for each file. `reply_tokens` limits its
    reply, if known: a small model that writes more is in a loop.
    """

    tool_context: ToolContext
    tools: tuple[Tool, ...]
    prompts: tuple[Prompt, ...]
    memories: dict[str, Memory]
    context: PromptContext
    answer_format: AnswerFormat
    question: str = ""
    reply_tokens: int | None = None

    @property
    def reminder(self) -> str:
        """What a small model must read last, also after each setback."""
        return self.tool_context.reminder

    @property
    def form(self) -> Form:
        return self.tool_context.form

    def located(self, answer: str) -> Prepared:
        """The same edit with the parts that the answer to `question` names; unchanged if it names none."""
        return assemble(self.context, self.answer_format, answer) if self.question else self

    @property
    def blobs(self) -> dict[str, str]:
        """The blob ids of the files that the request is about."""
        request = self.tool_context.request
        known = self.tool_context.draft.blobs()
        return {path: known[path] for path in (*request.paths, *request.read)}


def assemble(context: PromptContext, answer_format: AnswerFormat, answer: str | None = None) -> Prepared:
    """Build the prompt and the tools. `answer` is the answer to `question`.

    A small model is asked in short form: it does better without a protocol, and without what the repository says to
    assistants.
    """
    request, sources = context.request, context.sources
    edited = {path: data for path in request.paths if (data := sources[path].data) is not None}
    renames = RENAMES.search(request.instruction) is not None  # a name is used all over a file
    lines = ASKED_LINES if answer_format.form == "function" and not renames else WHOLE_LINES
    whole = {path: fits_whole(data, answer_format.output_tokens, lines) for path, data in edited.items()}
    windows = _windows(request, edited, whole, answer_format, answer) if answer_format.form in LOOSE else {}
    form = choose_form(answer_format.form, whole, windows)
    short = answer_format.is_short
    windows = windows if form == "function" else {}
    marks = {path: fence_mark(shown_text(sources[path], windows.get(path, ()))) for path in request.paths}
    tool_context = ToolContext(
        context.worktree,
        request,
        Draft(sources),
        set(context.editable),
        context.why_not,
        form=form,
        short=short,
        windows=windows,
        fits=all(whole.values()),
        read_limit=read_limit(answer_format.window),
        # several files are asked for one at a time: each prompt has its own then
        reminder=reminder(form, request.paths, windows, marks)
        if short and (form not in LOOSE or len(request.paths) == 1)
        else "",
    )
    tools = tuple(
        masked_tool(tool, tool_context)
        for tool in ((edit_tool(tool_context),) if short else _tools(tool_context))
    )
    asks = answer is None and answer_format.form in LOOSE and form == "search"
    questions = [
        question(path, edited[path], request.instruction) for path, fits in whole.items() if asks and not fits
    ]
    return Prepared(
        tool_context,
        tools,
        tuple(
            prompt_for(context, tool_context, tools, paths, {path: marks[path] for path in paths})
            for paths in ([(path,) for path in request.paths] if form in LOOSE else [request.paths])
        ),
        context.memories,
        context,
        answer_format,
        mask("\n\n".join(filter(None, questions))),
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
    answer_format: AnswerFormat,
    answer: str | None,
) -> dict[str, tuple[Window, ...]]:
    """The parts of files that are asked for instead of the whole."""
    limit = max(20, min(WHOLE_LINES, answer_format.output_tokens // 16))
    found: dict[str, tuple[Window, ...]] = {}
    for path, data in edited.items():
        short = answer_format.form == "whole" or fits_whole(data, answer_format.output_tokens, FUNCTION_LINES)
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


def _tools(tool_context: ToolContext) -> tuple[Tool, ...]:
    looking = (
        read_tool, files_tool, search_tool, outline_tool, history_tool, neighbors_tool, uses_tool, recall_tool
    )  # fmt: skip
    return edit_tool(tool_context), *(tool(tool_context) for tool in looking)
