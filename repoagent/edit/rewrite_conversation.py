"""Rewrite a stored conversation with a model's diff, applied as in any edit and verified by `check_rewrite`."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.resources import files

from repoagent.dataclass import dataclass
from repoagent.edit.model_setup import ModelSetup, keep_sent
from repoagent.edit.prompt.blocks import check_fits
from repoagent.errors import NothingDone, Refused
from repoagent.git.files import Content, FileChange
from repoagent.llm.complete import complete
from repoagent.llm.model import Message, OnText, Part, Request, fence, public_spec, without_thought
from repoagent.memory.conversation_log import (
    ConcurrentChange,
    ConversationChange,
    change_conversation,
    check_rewrite,
    digest,
)
from repoagent.memory.conversations import StoredConversation
from repoagent.patch.apply_answer import apply_answer
from repoagent.patch.refusal import NOTHING_TO_DO, NoPatch, PatchRefused
from repoagent.patch.render import canonical_diff
from repoagent.storage.atomic import write_whole
from repoagent.storage.layout import Layout
from repoagent.storage.secrets import mask, unknown_in, unmask

NAME = "conversation.md"
_STAYS = "The `user` turns are the user's own words: keep all of them unchanged, with their headings."
_MAY_GO = "You may also change `user` turns where the request says so."


@dataclass(frozen=True)
class RewriteRequest:
    original: StoredConversation
    request: str
    user_turns: bool = False  # whether these may change too


def first_request(rewrite_request: RewriteRequest, *, max_output_tokens: int) -> Request:
    nonce = rewrite_request.original.conversation.nonce
    system = (files("repoagent.edit") / "prompts" / "rewrite_conversation.md").read_text(encoding="utf-8")
    system = system.format(name=NAME, nonce=nonce, person=_MAY_GO if rewrite_request.user_turns else _STAYS)
    mark = digest(rewrite_request.original.data)
    shown = fence(mask(rewrite_request.original.text), f'file path="{NAME}" sha256="{mark}"')
    words = f"\n\nThe user requests this change:\n\n{mask(rewrite_request.request.strip())}\n"
    parts = (Part(shown, "conversation", cache=True), Part(words, "request"))
    question = {"conversation": mark, "request": mask(rewrite_request.request)}
    key = json.dumps({**question, "user_turns": rewrite_request.user_turns})
    return Request((Part(system, "instructions"),), (Message("user", parts),), max_output_tokens, key)


NO_CHANGE = "no changes: before and after are the same"


@dataclass(frozen=True)
class RewriteResult:
    original: StoredConversation
    after: bytes
    diff: str  # in git's format
    words: str = ""  # the model's remarks


def rewrite_conversation(
    layout: Layout,
    rewrite_request: RewriteRequest,
    setup: ModelSetup,
    *,
    on_text: OnText,
    on_void: OnText,
    on_wait: Callable[[float, str], None],
) -> RewriteResult:
    """Ask the model for the change. The callbacks are those of `complete`. Writes no files except a record of the
    request sent.

    Raises NothingDone if the model changes nothing, Refused if its diff does not fit or would break the conversation,
    UsageError if the conversation exceeds the context window, and what `complete` raises.
    """
    request = first_request(rewrite_request, max_output_tokens=setup.max_output_tokens)
    check_fits(request, setup.context_tokens)
    reply = complete(setup.model, request, setup.meter, on_text=on_text, on_wait=on_wait, on_void=on_void)
    keep_sent(layout, request)
    answer, original = without_thought(reply.text), rewrite_request.original
    text = unmask(answer)
    if made_up := next((name for name in unknown_in(text) if name not in original.text), ""):
        raise Refused(f"There is no {made_up} in the conversation: keep such placeholders unchanged.")
    try:
        first, *more = apply_answer(text, {NAME: Content(original.data)}).changes
    except NoPatch as error:
        name, said = public_spec(reply.model or setup.model.spec), " ".join(answer.split())
        raise NothingDone(f"{name} sent no change; it said: {said[:300]}") from error
    except PatchRefused as error:
        if error.reasons <= NOTHING_TO_DO:
            raise NothingDone(NO_CHANGE) from error
        raise
    if first.path != NAME or first.after is None or more:
        raise Refused(f"The diff deletes or renames the file: change only the content of {NAME}.")
    changed = mask(first.after.decode("utf-8", "surrogateescape"))
    after = changed.encode("utf-8", "surrogateescape")
    if after == original.data:
        raise NothingDone(NO_CHANGE)
    if problem := check_rewrite(mask(original.text), changed, user_turns=rewrite_request.user_turns):
        raise Refused(problem[:1].upper() + problem[1:] + ".")
    diff = canonical_diff((FileChange.at(NAME, Content(original.data), Content(after)),))
    words = " ".join(answer.partition("```")[0].partition("\n--- ")[0].split())
    return RewriteResult(original, after, diff, words)


def commit_rewrite(layout: Layout, done: RewriteResult) -> ConversationChange:
    """Write a rewritten conversation to its file.

    Raises what `change_conversation` raises. If the file has changed since the rewrite, saves the diff and raises
    ConcurrentChange.
    """
    ref = done.original.ref
    try:
        return change_conversation(layout, ref, done.original.data, done.after, "edit")
    except ConcurrentChange as error:
        saved = layout.proposals / f"conversation-{digest(done.after)[:12]}.patch"
        write_whole(saved, done.diff.encode("utf-8", "surrogateescape"))
        raise ConcurrentChange(
            f"{ref.name} has changed, so it was not rewritten; run the command again (the diff is saved as {saved})"
        ) from error
