"""`repoagent conversation edit`: a model, or a person in the editor, rewrites a conversation."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from repoagent.cli.conversation.common import GROUP, VERSION, examples, name_argument, open_desk, word
from repoagent.cli.program.model_options import (
    max_cost_option,
    model_option,
    record_option,
    reply_option,
    show_prompt_option,
)
from repoagent.cli.program.session import Session, json_option, pass_session
from repoagent.errors import ModelError, NothingDone, Refused, UsageError

if TYPE_CHECKING:
    from repoagent.cli.conversation.common import Desk
    from repoagent.edit.conversations import Rewrite, Rewritten
    from repoagent.edit.means import Means
    from repoagent.memory.conversations import Change
    from repoagent.memory.conversations.places import Held

EPILOG = examples(
    'edit parser "shorten the long answers"',
    'edit file:src/app.py "leave logging out" --user-turns',
    "edit parser          in your editor",
    more="\n4 and 5 are about the model, as for an edit.",
)


@click.command(epilog=EPILOG)
@name_argument()
@click.argument("request", metavar="[REQUEST]", required=False)
@click.option("--user-turns", is_flag=True, help="Also change or remove your own turns.")
@click.option("-y", "--yes", is_flag=True, help="Save without asking.")
@click.option("-n", "--dry-run", is_flag=True, help="Show the diff; write nothing.")
@model_option
@max_cost_option
@record_option
@reply_option
@show_prompt_option
@json_option
@pass_session
def command(session: Session, /, **options: Any) -> None:
    """Rewrite NAME as REQUEST says: a model sends a diff, which is checked, shown and written.

    Your own words stay as they are unless you say --user-turns. REQUEST may be - for standard input; without one your
    editor opens. `undo` takes it back.
    """
    from repoagent.edit.conversations import Rewrite, land
    from repoagent.memory.conversations import find

    given = SimpleNamespace(**options)
    desk = open_desk(session, {"model": given.model, "max_cost": given.max_cost})
    found = find(desk.here, given.name, own=True)
    request = _request(given, desk, found)
    if given.show_prompt:
        _show_prompt(desk, Rewrite(found, request, given.user_turns), as_json=given.as_json)
        return
    ready: Means | None = None
    if request:
        done, ready = _by_model(given, desk, Rewrite(found, request, given.user_turns))
    else:
        done = _by_hand(desk, found)
    if given.dry_run:
        _answer(desk, done, None, ready, as_json=given.as_json)
        return
    if not given.yes:
        _agree(desk, done)
    _answer(desk, done, land(desk.layout, done), ready, as_json=given.as_json)


def _request(given: SimpleNamespace, desk: Desk, found: Held) -> str:
    """The words of the request, "" for the editor. Raises UsageError where nobody can answer."""
    text = given.request
    if text == "-":
        text = sys.stdin.buffer.read().decode("utf-8", "replace")
    if text is not None and not text.strip():
        raise UsageError("the request is empty: nothing was done")
    if text is None and (given.show_prompt or not desk.terminal.can_ask):
        raise UsageError(f'say what to change in {found.place.name}: {GROUP} edit NAME "REQUEST"')
    if not (given.yes or given.dry_run or given.show_prompt or desk.terminal.can_ask):
        raise UsageError(
            "there is no terminal to ask on: say --yes to write it without a question, or --dry-run to see"
        )
    return (text or "").strip()


def _by_model(given: SimpleNamespace, desk: Desk, asked: Rewrite) -> tuple[Rewritten, Means]:
    from repoagent.cli.screen.paying import ready_for
    from repoagent.edit.conversations import Listening, rewrite
    from repoagent.llm.naming import shown

    terminal = desk.terminal
    waiting = terminal.working(f"reading {asked.found.place.name}")
    ready = ready_for(desk.settings, terminal, waiting, record=given.record, reply=given.reply)
    if ready.meter.book is not None:
        names = (asked.found.place.about or asked.found.place.name,)
        ready.meter.book = ready.meter.book.about("edit", str(desk.worktree.top), names)
    with waiting as working:
        working.label(f"asking {shown(ready.model.spec)}")
        if ready.model.spec == "manual":  # it is the person who is asked now
            working.quiet()
        listening = Listening(
            text=working.text if terminal.verbose else lambda piece: None,
            void=lambda text: working.note("(that reply broke off and does not count)"),
            wait=lambda seconds, why: working.note(f"{why}; trying again in {seconds:.0f} s"),
            again=lambda why: _again(desk, why, working.note, working.label),
        )
        return rewrite(desk.layout, asked, ready, listening), ready


def _again(desk: Desk, why: str, note: Any, label: Any) -> None:
    """Say that the model is asked once more, and why, where somebody reads it."""
    if desk.terminal.tells or desk.terminal.verbose:
        lines = [line for line in why.split("\n") if line.strip()]
        note(f"not accepted: {lines[-1] if len(lines) > 1 else why}", "dim")
        label("asking once more")


def _by_hand(desk: Desk, found: Held) -> Rewritten:
    from repoagent.edit.conversations import by_hand

    text = found.text
    while True:
        text = desk.terminal.edit_text(text, ".md") or ""
        if not text:
            raise NothingDone(f"the editor left nothing: {found.place.name} is as it was")
        try:
            return by_hand(found, text)
        except Refused as error:
            desk.terminal.note(str(error))
            if desk.terminal.ask("Go on editing", {"y": "open it again", "n": "leave it as it was"}) == "n":
                raise


def _agree(desk: Desk, done: Rewritten) -> None:
    terminal = desk.terminal
    terminal.note("")
    terminal.diff(done.diff, aside=True)
    if done.words:
        terminal.note(f"\n{done.words}\n", "dim")
    name = done.found.place.name
    if terminal.ask(f"Write this to {name}", {"y": "write it", "n": "leave it as it is"}) == "n":
        raise NothingDone("nothing was changed, as you said")


def _answer(
    desk: Desk, done: Rewritten, written: Change | None, ready: Means | None, *, as_json: bool
) -> None:
    from repoagent.cli.screen.paying import as_object, report
    from repoagent.llm.naming import shown
    from repoagent.memory.conversations.past import digest

    terminal, place = desk.terminal, done.found.place
    if as_json:
        paid = None if ready is None else {"model": shown(ready.model.spec), **as_object(ready)}
        value = {
            "version": VERSION,
            "command": "edit",
            "name": place.name,
            "path": str(place.path),
            "written": written is not None,
            "before": digest(done.found.data),
            "after": digest(done.after),
            "diff": done.diff,
            "words": done.words,
            "asked": paid,
        }
        terminal.result(json.dumps(value, indent=2) + "\n")
        return
    if written is None:
        terminal.diff(done.diff)
        if terminal.tells:
            terminal.note("nothing was written (--dry-run)", "dim")
    else:
        added, removed = (
            sum(line.startswith(mark) and not line.startswith(mark * 3) for line in done.diff.split("\n"))
            for mark in "+-"
        )
        stat = f"+{added} -{removed}"
        terminal.result(f"changed {place.name} ({stat}); `{GROUP} undo {word(place.name)}` takes it back\n")
    if ready is not None:
        report(terminal, ready)


def _show_prompt(desk: Desk, asked: Rewrite, *, as_json: bool) -> None:
    from repoagent.cli.context.prompt import Block, Shown, show_texts
    from repoagent.edit.conversations import first_request
    from repoagent.edit.means import asked_for
    from repoagent.llm import DEFAULT_MODEL, chosen, estimate_tokens
    from repoagent.llm.naming import shown

    try:
        spec = chosen(desk.settings).spec
    except ModelError:  # nothing is sent, so it needs no key
        spec = DEFAULT_MODEL
    window = asked_for(desk.settings, spec).window
    request = first_request(asked, max_output_tokens=0)
    pairs = [("system", part) for part in request.system]
    pairs += [(message.role, part) for message in request.messages for part in message.parts]
    last = max((place for place, (_, part) in enumerate(pairs) if part.cache), default=-1)
    blocks = tuple(
        Block(role, part, estimate_tokens(part.text), place <= last)
        for place, (role, part) in enumerate(pairs)
    )
    show_texts(Shown(shown(spec), window, blocks), desk.terminal, as_json=as_json, count=False)
