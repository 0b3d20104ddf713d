"""Gather the inputs of a prompt: sources, history, memory, summaries, repository facts."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

from repoagent.config.settings import Settings, user_file
from repoagent.edit.guards.off_limits import WhyNot, gate, why_content_is_off_limits
from repoagent.edit.prompt import blocks
from repoagent.edit.prompt.blocks import named
from repoagent.edit.prompt.build import Prepared, PromptContext, assemble
from repoagent.edit.prompt.formats import AnswerFormat
from repoagent.edit.prompt.instruction_files import USER_FILE, ContextFiles, collect
from repoagent.edit.prompt.large_files import limit_for
from repoagent.edit.prompt.relevance import recently_touched
from repoagent.edit.request import EditRequest, Target, no_file
from repoagent.errors import Refused, UsageError
from repoagent.git.facts import Facts, gather_facts
from repoagent.git.files import Source, read_source
from repoagent.git.similar_paths import no_such_file
from repoagent.git.worktree import WorkTree, layout
from repoagent.history.file_history import last_changes, walked_since
from repoagent.history.neighbors import Neighborhood, recent_neighborhood
from repoagent.memory.identity.record import Memory
from repoagent.memory.identity.store import copy_of, resolve
from repoagent.memory.notes import older_texts
from repoagent.memory.prompt import block, exchanges_block, notes_block
from repoagent.storage.secrets import mask
from repoagent.uses.request_symbols import uses_block


def summary_of(worktree: WorkTree, source: Source) -> str:
    """The summary of a file to edit; "" without one, or if its text has changed."""
    place = layout(worktree)
    if source.data is None or not (place.summaries / "files").is_dir():
        return ""
    from repoagent.memory.file_summaries import summary_block

    return summary_block(place, source.path, source.data)


def purposes(worktree: WorkTree, paths: Iterable[str]) -> str:
    """One line for each of the neighbors `paths` that has a summary. Unreadable ones are omitted."""
    place = layout(worktree)
    if not (place.summaries / "files").is_dir():
        return ""
    from repoagent.memory.file_summaries import may_have_purpose, purpose

    lines = []
    for path in paths:
        try:
            size = (worktree.top / path).lstat().st_size
            data = read_source(worktree, path).data if may_have_purpose(place, path, size) else None
        except (Refused, OSError):
            continue
        if data is not None and (line := purpose(place, path, data)):
            lines.append(f"- {named(path)}: {line}\n")
    return "".join(["\nTheir purpose:\n", *lines]) if lines else ""


__all__ = ["Prepared", "prepare", "read_sources"]

NEIGHBORS_SHOWN, NEIGHBORS_IN_SCOPE = 4, 8
MEMORY_TOKENS = 2_000  # for the notes on a file
EARLIER_TOKENS = 1_500  # for what was asked and said of it before


def prepare(
    worktree: WorkTree, request: EditRequest, settings: Settings, answer_format: AnswerFormat | None = None
) -> Prepared:
    """Read the files, their history and memory, and build the prompt in the given answer format.

    git searches the history while the rest is read, limited by numbers of commits, not by time: the same repository
    always gives the same prompt. Raises UsageError for missing files, Refused for what may not be sent or edited, and
    for an operation in progress unless `no_commit` is given.
    """
    why_not = gate(worktree.top, (*request.paths, *request.read))
    request = replace(request, instruction=mask(request.instruction))
    short = bool(answer_format and answer_format.is_short)
    with ThreadPoolExecutor(3) as asking:
        since = asking.submit(walked_since, worktree)
        around = asking.submit(_around, worktree, request, since, short=short)
        facts = gather_facts(worktree)
        _refuse_during_operation(facts, request)
        sources = _sources(worktree, request, why_not)
        limit = limit_for(
            settings.whole("edit.inline_limit"), answer_format.window if answer_format else None
        )
        sizes = {path: len(sources[path].data or b"") for path in request.paths}
        touched = {
            path: asking.submit(recently_touched, worktree, path, size, since.result())
            for path, size in sizes.items()
            if size > limit
        }
        commits = 0 if short else settings.whole("history.commits")
        summaries = layout(worktree).summaries
        changes = {
            path: asking.submit(last_changes, worktree, path, commits, since.result(), summaries)
            for path in request.paths
            if commits
        }
        request = _with_places(request, sources)
        uses = asking.submit(_uses, worktree, request, sources, why_not, short=short)
        memories = _memories(worktree, request, sources, settings)
        histories = {path: found.result() for path, found in changes.items()}
        neighbors = around.result()
        recent = {path: found.result() for path, found in touched.items()}
        used = uses.result()
    rows = neighbors.rows if neighbors is not None else ()
    editable = set(request.paths)
    if request.scope == "neighbors":
        sure = [os.fsdecode(row.path) for row in rows if row.together > 1]
        editable |= {path for path in sure if not why_not(path)} - set(request.read)
        for path in sorted(editable - set(sources)):
            sources[path] = read_source(worktree, path)
    # those that changed with the files more than once, or are named like them, and may be read
    likely = (os.fsdecode(row.path) for row in rows if row.together > 1 or "name" in row.reasons)
    neighbors_shown = [path for path in likely if not why_not(path)][:NEIGHBORS_SHOWN]
    context = PromptContext(
        worktree,
        settings,
        request,
        why_not,
        sources,
        editable,
        facts,
        memories,
        history=_join(histories),
        neighbors="\n".join(map(blocks.named, neighbors_shown)) + purposes(worktree, neighbors_shown),
        remembered=_join(_remembered(worktree, request, sources, memories, short=short)),
        earlier="" if short else _join(_earlier(request, memories)),
        uses=used,
        recent=recent,
        answer_format=answer_format or AnswerFormat(),
        context_files=ContextFiles()
        if short
        else collect(
            worktree.top,
            layout(worktree).root,
            settings.texts("context"),
            request.paths,
            why_not,
            user=user_file(os.environ).with_name(USER_FILE),
            budget=settings.whole("context_limit"),
        ),
    )
    return assemble(context, answer_format or AnswerFormat())


def _around(
    worktree: WorkTree, request: EditRequest, since: Future[int | None], *, short: bool
) -> Neighborhood | None:
    """What changes with the files; None where no one is to see it, and for files that are not there yet."""
    paths = [path for path in request.paths if os.path.lexists(worktree.top / path)]
    if not paths or (short and request.scope != "neighbors"):
        return None
    return recent_neighborhood(worktree, paths, limit=NEIGHBORS_IN_SCOPE, since=since.result())


def _uses(
    worktree: WorkTree, request: EditRequest, sources: Mapping[str, Source], why_not: WhyNot, *, short: bool
) -> str:
    """Where the symbols that the request names are used in other files, and in which tests."""
    files = {path: data for path in request.paths if (data := sources[path].data) is not None}
    if short or not files:
        return ""
    targets = [(target.path, target.symbol) for target in request.targets if target.symbol]
    return uses_block(worktree, request.instruction, files, targets, why_not)


def _join(values: Mapping[str, str]) -> str:
    """The texts of several files under each other, each with its path where there is more than one."""
    texts = {path: text.strip() for path, text in values.items()}
    shown = [
        f"{blocks.named(path)}:\n{body}" if len(values) > 1 else body for path, body in texts.items() if body
    ]
    return "\n\n".join(shown)


def read_sources(worktree: WorkTree, targets: Sequence[Target], read: Sequence[str], *, create: bool) -> None:
    """Read the files to edit and to read, and raise what `prepare` would raise about them."""
    request = EditRequest("", tuple(targets), tuple(read), create)
    _with_places(request, _sources(worktree, request, gate(worktree.top, request.paths)))


def _sources(worktree: WorkTree, request: EditRequest, why_not: WhyNot) -> dict[str, Source]:
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
            raise Refused(f"{path} is not edited: {reason}.")
    return sources


def _with_places(request: EditRequest, sources: dict[str, Source]) -> EditRequest:
    """The request with each `FILE::symbol` resolved to lines, and each range checked against its file."""
    placed: dict[Target, None] = {}
    for target in request.targets:
        data = sources[target.path].data or b""
        if target.symbol is not None:
            from repoagent.syntax.outline import find_symbols

            for symbol in find_symbols(target.path, data, target.symbol):
                placed[replace(target, first=symbol.first_line, last=symbol.last_line)] = None
            continue
        if target.first is not None:
            count = max(1, len(blocks.shown(data).splitlines()))
            if target.first > count:
                raise UsageError(f"{target.path} has {count} lines; there is no line {target.first}.")
            target = replace(target, last=min(target.last or target.first, count))
        placed[target] = None
    return replace(request, targets=tuple(placed))


def _memories(
    worktree: WorkTree, request: EditRequest, sources: dict[str, Source], settings: Settings
) -> dict[str, Memory]:
    if not settings.switch("memory.enabled"):
        return {}
    place = layout(worktree)
    found = {
        path: resolve(place, worktree, path, source.data)
        for path in request.paths
        if (source := sources[path]).data is not None
    }
    return {path: memory for path, memory in found.items() if memory is not None}


def copies(prepared: Prepared) -> list[str]:
    """A sentence for each file without memory that is a copy of one with memory: it inherits nothing."""
    context = prepared.context
    if not context.settings.switch("memory.enabled"):
        return []
    found = []
    for path in context.request.paths:
        data = context.sources[path].data
        if data is None or path in context.memories:
            continue
        original = copy_of(layout(context.worktree), context.worktree, path, data)
        if original is not None:
            from repoagent.memory.lookup import is_copy

            typed = os.path.relpath(context.worktree.top / path)
            found.append(f"{path} {is_copy(original, context.worktree, typed)}")
    return found


def _remembered(
    worktree: WorkTree,
    request: EditRequest,
    sources: Mapping[str, Source],
    memories: Mapping[str, Memory],
    *,
    short: bool,
) -> dict[str, str]:
    """What is known of each file, whatever is asked: notes, and what it is for; a small model is told the last edits
    too, and no more of what was said."""
    found = {}
    tell = block if short else notes_block
    older = older_texts(worktree)
    for path in request.paths:
        known = path in memories and not request.fresh
        data = sources[path].data
        said = tell(memories[path], MEMORY_TOKENS, data=data, older=older) if known else ""
        found[path] = said + ("" if short else summary_of(worktree, sources[path]))
    return found


def _earlier(request: EditRequest, memories: Mapping[str, Memory]) -> dict[str, str]:
    """What was asked of each file before, and what came of it, as far as it matters for this request."""
    if request.fresh:
        return {}
    words = " ".join([request.instruction, *(target.symbol or "" for target in request.targets)])
    return {
        path: exchanges_block(memories[path], words, EARLIER_TOKENS) if path in memories else ""
        for path in request.paths
    }


def _refuse_during_operation(facts: Facts, request: EditRequest) -> None:
    """A commit in the middle of a merge or rebase would take that operation over or destroy it."""
    if request.commit.no_commit or request.dry_run:
        return
    if facts.unmerged:
        raise Refused(f"{facts.unmerged[0]} has unmerged conflicts: resolve them first, or use --no-commit.")
    if facts.operation and facts.operation != "bisect":
        article = "an" if facts.operation == "am" else "a"
        raise Refused(
            f"{article} {facts.operation} is in progress: finish or abort it first, or use --no-commit."
        )
