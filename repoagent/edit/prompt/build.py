"""Gather the context of an edit, and build the model's prompt and tools from it.

Secrets are masked in everything that is sent to a model. They are unmasked only in the model's patches, which must
match the bytes of the files.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

from repoagent.agent.actions import Action, Observation
from repoagent.agent.describe_tools import protocol_text, tool_schemas
from repoagent.agent.state import EDIT, Tool
from repoagent.config.settings import Settings
from repoagent.dataclass import dataclass
from repoagent.edit.draft import Draft, EditSession, read_limit
from repoagent.edit.guards.off_limits import WhyNot, off_limits_gate, why_content_is_off_limits
from repoagent.edit.patch_tool import edit_tool, refused
from repoagent.edit.prompt import blocks, formats
from repoagent.edit.prompt.blocks import Prompt
from repoagent.edit.prompt.formats import LOOSE, AnswerFormat
from repoagent.edit.prompt.instruction_files import collect_instructions
from repoagent.edit.prompt.large_files import BYTES_A_TOKEN, SPARE_TOKENS, long_files
from repoagent.edit.request import EditRequest, Target, no_file
from repoagent.edit.tools import LOOK_UPS, look_up
from repoagent.errors import Refused, UsageError
from repoagent.git.files import Source, no_such_file, read_source
from repoagent.git.worktree import WorkTree, gather_facts, layout_of
from repoagent.history.cochange import Neighbor
from repoagent.history.file_history import last_changes, walked_since
from repoagent.history.neighbors import recent_neighborhood
from repoagent.llm.model import Part
from repoagent.llm.usage import estimate_tokens
from repoagent.memory.identity.store import resolve_all
from repoagent.memory.notes import older_texts
from repoagent.memory.prompt import exchanges_block, memory_block, notes_block
from repoagent.storage.secrets import mask, unknown_in, unmask

if TYPE_CHECKING:
    from repoagent.edit.prompt.relevance import Touched
    from repoagent.edit.small_models.excerpts import FilePart
    from repoagent.memory.identity.record import Memory

NEIGHBORS_SHOWN, NEIGHBORS_IN_SCOPE = 4, 8
MEMORY_TOKENS = 2_000  # for the notes on a file
EARLIER_TOKENS = 1_500  # for the earlier requests about a file, with their answers
BLOCKS = ("facts", "history", "neighbors", "memory", "subjects", "earlier", "uses", "rules")
RESUME_HINT = "The model's answer is saved: run the same command again to resume."


@dataclass(frozen=True)
class PromptContext:
    """Everything gathered for a prompt, before `assemble` decides how much of each file to show."""

    worktree: WorkTree
    settings: Settings
    request: EditRequest
    why_not: WhyNot
    sources: dict[str, Source]
    editable: set[str]
    memories: dict[str, Memory]
    texts: Mapping[str, str]  # of the other blocks, by name
    recent: Mapping[str, tuple[Touched, ...]]  # recently changed lines of files that may be too long
    answer_format: AnswerFormat
    context_files: Sequence[Part]
    warnings: tuple[str, ...]  # about the context files


@dataclass(frozen=True)
class PreparedEdit:
    """An edit that is ready for the model. A small model gets one prompt per file.

    question: asks which part of a long file the request is about; pass the answer to `located`. "" if there is no need
        to ask.
    reply_tokens: the limit on a small model's reply, if known. A model that writes more is in a loop.
    """

    session: EditSession
    tools: tuple[Tool, ...]
    prompts: tuple[Prompt, ...]
    context: PromptContext
    question: str = ""
    reply_tokens: int | None = None

    def located(self, answer: str) -> PreparedEdit:
        """Prepare the edit of the parts that the answer to `question` names, or of the whole files if it names none."""
        return assemble(self.context, answer) if self.question else self

    @property
    def blobs(self) -> dict[str, str]:
        """The blob ids of the files that the request is about."""
        request, known = self.session.request, self.session.draft.blobs()
        return {path: known[path] for path in (*request.paths, *request.read)}


def prepare_prompt(
    worktree: WorkTree, request: EditRequest, settings: Settings, answer_format: AnswerFormat | None = None
) -> PreparedEdit:
    """Read the files, their history and memory, and build the prompt for `answer_format`.

    git searches the history in parallel, limited by the number of commits rather than by time, so that the same
    repository always gives the same prompt. Raises UsageError for missing files, and Refused for files that may not be
    sent or edited and, unless the request has `no_commit`, during a merge, a rebase or the like.
    """
    answer_format = answer_format or AnswerFormat()
    short, dirs = answer_format.is_short, layout_of(worktree)
    why_not = off_limits_gate(worktree.top, (*request.paths, *request.read))
    request = replace(request, instruction=mask(request.instruction))
    with ThreadPoolExecutor(3) as executor:
        since = executor.submit(walked_since, worktree)
        present = [path for path in request.paths if os.path.lexists(worktree.top / path)]
        around: Future[tuple[Neighbor, ...]] | None = None

        def find_neighbors(earlier: Sequence[str] = ()) -> tuple[Neighbor, ...]:
            limit, start = NEIGHBORS_IN_SCOPE, since.result()
            return recent_neighborhood(worktree, present, earlier, limit=limit, since=start).rows

        if present and (not short or request.scope == "neighbors"):
            around = executor.submit(find_neighbors)
        facts = gather_facts(worktree)
        if request.commits and facts.unmerged:  # a commit would conclude or break the operation
            raise Refused(
                f"{facts.unmerged[0]} has unresolved conflicts: resolve them first, or use --no-commit."
            )
        if request.commits and facts.operation and facts.operation != "bisect":
            article = "an" if facts.operation == "am" else "a"
            raise Refused(
                f"{article} {facts.operation} is in progress: finish or abort it first, or use --no-commit."
            )
        request, sources = read_sources(worktree, request, why_not)
        limit = settings.whole("edit.inline_limit")
        if answer_format.window is not None:
            limit = min(limit, answer_format.window * BYTES_A_TOKEN // 4)
        sizes = {path: len(sources[path].data or b"") for path in request.paths}
        touched = {}
        for path in [path for path, size in sizes.items() if size > limit]:
            from repoagent.edit.prompt.relevance import recently_touched

            touched[path] = executor.submit(recently_touched, worktree, path, sizes[path], since.result())
        commits = 0 if short else settings.whole("history.commits")
        changes = {
            path: executor.submit(last_changes, worktree, path, commits, since.result(), dirs.summaries)
            for path in (request.paths if commits else ())
        }
        existing = {path: data for path in request.paths if (data := sources[path].data) is not None}
        uses: Future[str] | None = None
        if existing and not short:
            from repoagent.uses.request_symbols import uses_block

            pointed = [(target.path, target.symbol) for target in request.targets if target.symbol]
            uses = executor.submit(uses_block, worktree, request.instruction, existing, pointed, why_not)
        memories = resolve_all(dirs, worktree, existing.items() if settings.switch("memory.enabled") else ())
        histories = {path: future.result()[0] for path, future in changes.items()}
        names = [name for future in changes.values() for name in future.result()[1]]
        earlier_names = [name for name in names if not os.path.lexists(worktree.top / name)]
        rows = around.result() if around is not None else ()
        if around is not None and earlier_names:
            rows = find_neighbors(earlier_names)
        recent = {path: future.result() for path, future in touched.items()}
        used = uses.result() if uses else ""
    editable = set(request.paths)
    if request.scope == "neighbors":
        frequent = [os.fsdecode(row.path) for row in rows if row.together > 1]
        editable |= {path for path in frequent if not why_not(path)} - set(request.read)
        for path in sorted(editable - set(sources)):
            sources[path] = read_source(worktree, path)
    # neighbors that changed together with the files at least twice or have similar names, and may be read
    likely = (os.fsdecode(row.path) for row in rows if row.together > 1 or "name" in row.reasons)
    neighbors_shown = [path for path in likely if not why_not(path)][:NEIGHBORS_SHOWN]
    known = {} if request.fresh else memories
    words = " ".join([request.instruction, *(target.symbol or "" for target in request.targets)])
    # the notes on each file and its summary; for a small model the last edits instead of a summary
    show, older, remembered = (memory_block if short else notes_block), older_texts(worktree), {}
    for path in request.paths:
        data = sources[path].data
        text = show(known[path], MEMORY_TOKENS, data=data, older=older) if path in known else ""
        if data is not None and not short and (dirs.summaries / "files").is_dir():
            from repoagent.memory.file_summaries import summary_block

            text += summary_block(dirs, path, data)
        remembered[path] = text
    earlier = {path: exchanges_block(memory, words, EARLIER_TOKENS) for path, memory in known.items()}
    texts = dict.fromkeys(BLOCKS, "")
    texts["memory"] = _by_path(request, remembered)
    context_files, warnings = list[Part](), tuple[str, ...]()
    if not short:
        texts["facts"], texts["subjects"] = blocks.repository_line(facts), blocks.subjects_block(facts)
        texts["history"], texts["earlier"] = _by_path(request, histories), _by_path(request, earlier)
        texts["neighbors"] = "\n".join(map(blocks.name_in_prose, neighbors_shown))
        texts["uses"], texts["rules"] = used, blocks.rules_block(request, editable)
        context_files, warnings = collect_instructions(
            worktree.top, dirs.root, settings, request.paths, why_not
        )
    context = PromptContext(
        worktree, settings, request, why_not, sources, editable, memories, texts, recent, answer_format,
        context_files, warnings,
    )  # fmt: skip
    return assemble(context)


def read_sources(
    worktree: WorkTree, request: EditRequest, why_not: WhyNot
) -> tuple[EditRequest, dict[str, Source]]:
    """Read the files of a request. Returns the request with each `FILE::symbol` resolved to lines, and the files by
    path.

    Raises UsageError for a missing file or symbol and for lines outside the file, Refused for a file that may not be
    sent or edited.
    """
    sources: dict[str, Source] = {}
    for path in (*request.paths, *request.read):
        if reason := why_not(path):
            raise Refused(reason)
        sources[path] = source = read_source(worktree, path)
        edited = path in request.paths
        if source.data is None:
            if not (edited and request.create):
                raise no_file(worktree, path) if edited else no_such_file(path, worktree.top)
        elif source.binary:
            raise Refused(f"{path} is binary; only text files can be edited.")
        elif edited and (reason := why_content_is_off_limits(source.data)):
            raise Refused(f"refusing to edit {path}: {reason}.")
    targets: dict[Target, None] = {}
    for target in request.targets:
        data = sources[target.path].data or b""
        if target.symbol is not None:
            from repoagent.syntax.outline import find_symbols

            for symbol in find_symbols(target.path, data, target.symbol):
                targets[replace(target, first=symbol.first_line, last=symbol.last_line)] = None
            continue
        if target.first is not None:
            count = max(1, len(blocks.model_text(data).splitlines()))
            if target.first > count:
                raise UsageError(f"{target.path} has no line {target.first}: its last line is {count}.")
            target = replace(target, last=min(target.last or target.first, count))
        targets[target] = None
    return replace(request, targets=tuple(targets)), sources


def _by_path(request: EditRequest, values: Mapping[str, str]) -> str:
    """The texts of several files, each preceded by its path if the request has more than one file."""
    texts = {path: text.strip() for path, text in values.items()}
    with_path = len(request.paths) > 1
    return "\n\n".join(
        f"{blocks.name_in_prose(path)}:\n{text}" if with_path else text
        for path, text in texts.items()
        if text
    )


def masked_prompt(prompt: Prompt) -> Prompt:
    system, opening = (
        tuple(replace(part, text=mask(part.text)) for part in parts)
        for parts in (prompt.system, prompt.opening)
    )
    return replace(prompt, system=system, opening=opening)


def masked_tool(tool: Tool, session: EditSession) -> Tool:
    """Wrap a tool: mask secrets in its output, and unmask them in the patches that it receives."""

    def perform(action: Action) -> Observation:
        if tool.name == EDIT:
            action = replace(action, body=unmask(action.body))
            files = [text.data for text in session.draft.texts().values()]
            for name in unknown_in(action.body):  # looks like a masked secret, but no secret has this name
                if not any(name.encode() in data for data in files):
                    text = (
                        f"The files contain no {name}: write what they show, or another kind of placeholder."
                    )
                    return refused(session, text, f"the change contains {name}, which is not in the files")
        seen = tool.perform(action)
        return replace(seen, text=mask(seen.text))

    return replace(tool, perform=perform)


def assemble(context: PromptContext, answer: str | None = None) -> PreparedEdit:
    """Build the prompts and the tools. `answer` is the model's answer to `PreparedEdit.question`; None if the question
    has not been asked yet.

    A small model gets neither the protocol nor the repository's instruction files, because it does better without them.
    """
    request, sources, answer_format = context.request, context.sources, context.answer_format
    form, short = answer_format.form, answer_format.is_short
    edited = {path: data for path in request.paths if (data := sources[path].data) is not None}
    lines = formats.WHOLE_LINES
    if form == "function" and not formats.is_rename(request.instruction):
        lines = formats.ASKED_LINES
    whole = {
        path: formats.fits_whole(data, answer_format.output_tokens, lines) for path, data in edited.items()
    }
    windows: dict[str, tuple[FilePart, ...]] = {}
    question = ""
    if short:
        from repoagent.edit.small_models import excerpts

        if form in LOOSE:
            windows = _windows(context, edited, whole, answer)
        asks = answer is None and form in LOOSE
        form = formats.choose_form(form, whole, windows)
        windows = windows if form == "function" else {}
        if asks and form == "search":
            long = [path for path, fits in whole.items() if not fits]
            questions = (
                excerpts.definitions_question(path, edited[path], request.instruction) for path in long
            )
            question = mask("\n\n".join(filter(None, questions)))
    session = EditSession(
        context.worktree, request, Draft(sources), set(context.editable), context.why_not,
        resume_hint=RESUME_HINT, form=form, short=short, windows=windows, fits=all(whole.values()),
        read_limit=read_limit(answer_format.window),
    )  # fmt: skip
    tools = [edit_tool(session)]
    if not short:
        tools += [look_up(session, name) for name in LOOK_UPS]
    masked = tuple(masked_tool(tool, session) for tool in tools)
    groups = [(path,) for path in request.paths] if form in LOOSE else [request.paths]
    prompts = tuple(prompt_for(context, session, masked, paths) for paths in groups)
    if len(prompts) == 1:  # whole files are requested one at a time, each with its own reminder
        session.reminder = prompts[0].reminder
    tokens = None
    if form in LOOSE and len(edited) == len(request.paths):
        # one and a half times the longest requested text, and an explanation
        texts = (excerpts.shown_text(sources[path], windows.get(path, ())) for path in request.paths)
        longest = max(map(estimate_tokens, texts))
        tokens = longest + longest // 2 + 400
    return PreparedEdit(session, masked, prompts, context, question, tokens)


def _windows(
    context: PromptContext, edited: Mapping[str, bytes], whole: Mapping[str, bool], answer: str | None
) -> dict[str, tuple[FilePart, ...]]:
    """The parts to request instead of the whole file, by path."""
    from repoagent.edit.small_models import excerpts

    request, output_tokens = context.request, context.answer_format.output_tokens
    limit = max(20, min(formats.WHOLE_LINES, output_tokens // 16))
    windows: dict[str, tuple[FilePart, ...]] = {}
    for path, data in edited.items():
        is_small = formats.fits_whole(data, output_tokens, formats.FUNCTION_LINES)
        is_small = is_small or context.answer_format.form == "whole"
        if whole[path] and (is_small or formats.is_rename(request.instruction)):
            continue
        parts = excerpts.find_windows(path, data, request.instruction, request.lines_in(path), limit)
        if not parts and answer is not None and not whole[path]:
            parts = excerpts.answered_windows(path, data, answer, limit)
        if parts:
            windows[path] = parts
    return windows


def prompt_for(
    context: PromptContext,
    session: EditSession,
    tools: Sequence[Tool],
    paths: Sequence[str],
    *,
    note: str = "",
    plain: bool = False,
) -> Prompt:
    """The prompt for `paths`, which are all paths of the request or one of them.

    `note` follows the request; `plain` selects another wording, for a model that repeated a bad answer. The most stable
    blocks come first, and a cache breakpoint follows each prefix that the next edit may share.
    """
    request, sources, form, short = context.request, context.sources, session.form, session.short
    native, texts = context.answer_format.native and not short, context.texts
    windows = {path: session.windows[path] for path in paths if path in session.windows}
    last = grammar = ""
    excerpts: dict[str, str] = {}
    if not short:
        protocol = blocks.prompt_text("edit") + "\n" + protocol_text(tools, native=native)
    else:
        from repoagent.edit.small_models.excerpts import fence_mark, file_excerpt, shown_text

        parts, mark = windows.get(paths[0], ()), "```"
        if form in LOOSE:  # these forms request one file at a time
            mark = fence_mark(shown_text(sources[paths[0]], parts))
            excerpts = {paths[0]: file_excerpt(sources[paths[0]], windows.get(paths[0]), request.instruction)}
            grammar = formats.fence_grammar("" if plain else paths[0], mark) if len(parts) < 2 else ""
        last = formats.reminder(form, paths, parts, mark, plain=plain)
        protocol = blocks.prompt_text("plain" if plain else form)
        if form not in LOOSE and not plain:
            protocol = f"{blocks.prompt_text('short')}\n{protocol}"
    other_texts = (
        protocol, *texts.values(), request.instruction, note, last, *excerpts.values(),
        *(part.text for part in context.context_files),
    )  # fmt: skip
    hidden = {path for path in request.paths if path not in paths}
    shown = [source for source in sources.values() if source.path not in hidden]
    answer_format = context.answer_format
    room = None  # bytes left for files after the reply and the other blocks
    if (window := answer_format.window) is not None:
        left = window - min(answer_format.output_tokens, window // 2) - sum(map(estimate_tokens, other_texts))
        room = max(0, left - SPARE_TOKENS) * BYTES_A_TOKEN
    inline = context.settings.whole("edit.inline_limit")
    to_show = [source for source in shown if source.path in {*paths, *request.read} - {*excerpts}]
    long = long_files(to_show, request, inline, room, context.recent, bare=short)
    for path, file in long.items():
        session.seen[path] = [*session.seen.get(path, ()), *file.lines]
        excerpts[path] = file.text
    read: list[Part] = []
    edited: list[Part] = []
    for source in sorted(shown, key=lambda source: source.path in long):
        if source.path in request.paths:
            text = excerpts.get(source.path) or blocks.file_block(source, "file to edit")
            edited.append(Part(text, f"file {source.path}"))
        elif source.path in request.read:
            text = excerpts.get(source.path) or blocks.file_block(source, "for reading only")
            read.append(Part(text, f"read {source.path}"))
    facts = f"The repository:\n{texts['facts']}\n\n" if texts["facts"] else ""
    opening = [
        *blocks.with_cache_breakpoint([Part(facts, "facts"), *read], len(read)),
        *blocks.with_cache_breakpoint(
            [
                Part(blocks.quoted_block("History", texts["history"]), "history"),
                Part(blocks.quoted_block(blocks.NEIGHBORS, texts["neighbors"], "neighbors"), "neighbors"),
                Part(blocks.quoted_block("Memory", texts["memory"]), "memory"),
                *edited,
                Part(blocks.prompt_text("large") + "\n" if long and not short else "", "long files"),
            ]
        ),
        Part(texts["subjects"], "subjects"),
        Part(blocks.quoted_block("Earlier", texts["earlier"]), "earlier"),
        Part(blocks.quoted_block("Uses", texts["uses"]), "uses"),
        Part(texts["rules"], "rules"),
        Part(blocks.request_block(request) + note + last, "request"),
    ]
    system = tuple(blocks.with_cache_breakpoint([Part(protocol, "protocol"), *context.context_files]))
    prompt = Prompt(system, tuple(part for part in opening if part.text), last, short, grammar)
    return masked_prompt(replace(prompt, tools=tool_schemas(tools)) if native else prompt)
