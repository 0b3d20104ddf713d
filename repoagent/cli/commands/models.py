"""`repoagent models`: the configured models and whether they can be reached; `models test` calls a model."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from repoagent.cli.app import LazyGroup
from repoagent.cli.session import Session, find_layout, json_option, pass_session, select_fields, write_json
from repoagent.cli.ui.table import Page
from repoagent.display_text import sanitize
from repoagent.llm.model import display_name

if TYPE_CHECKING:
    from repoagent.llm.open_model import StatusRow


TABLE = {"test": ("models:test", "Test a model with a minimal call.")}
EPILOG = """\b
Examples:
  repoagent models
  repoagent models test              the model for edits
  repoagent models test openai/gpt-5
"""


@click.group(
    cls=LazyGroup,
    table=TABLE,
    epilog=EPILOG,
    subcommand_metavar="[COMMAND] [ARGS]...",
    invoke_without_command=True,
)
@json_option
@pass_session
@click.pass_context
def command(ctx: click.Context, session: Session, as_json: bool) -> None:
    """Show the configured models, the origin of their keys, and whether they can be reached.

    This costs nothing: it only asks providers for their lists of models.
    """
    if ctx.invoked_subcommand is not None:
        return
    from repoagent.llm.catalog import data_date, short_names
    from repoagent.llm.open_model import configured_models, provider_rows

    settings, terminal = session.open(find_layout())
    with terminal.working("asking the providers"):
        rows, providers = configured_models(settings), provider_rows(settings)
    if as_json:
        models = []
        for row in rows:
            price = None
            if row.known.price is not None and row.spec:
                price = select_fields(row.known.price, "input", "output", "cache_read", "cache_write")
                price["source"] = row.known.sources.get("price")
            models.append(
                {
                    **_status_object(row),
                    "model": display_name(row.spec) or None,
                    **select_fields(row, "origin", "context"),
                    "runs": row.status.runs or None,
                    "max_output": row.known.max_output,
                    "format": row.known.format if row.spec else None,
                    "price": price,
                }
            )
        content = {
            "models": models,
            "providers": [_status_object(row) for row in providers],
            "families": short_names(),
            "prices_as_of": data_date(),
        }
        write_json(terminal, content)
        return
    page = Page.of(terminal)
    ready = [row for row in providers if row.status.tried and not row.status.problem]
    broken = [row for row in providers if row.status.key and row.status.problem]
    lines = [*page.pairs([(row.name, _facts(row)) for row in rows], "bold")]
    if ready or broken:
        lines += ["", page.paint("providers", "bold")]
        lines += page.pairs([(row.name, _facts(row)) for row in (*ready, *broken)])
    lines += ["", page.paint("short names for the newest model of each family", "bold")]
    lines += page.wrap(" · ".join(f"{name}: {spec}" for name, spec in short_names().items()), indent="  ")
    page.write(lines, terminal)
    unavailable = ", ".join(row.name for row in providers if row not in ready and row not in broken)
    if unavailable:
        terminal.note(f"\nproviders without a key or a running server: {unavailable}", "dim")
    prices = f"prices as of {data_date()}, in US dollars per million tokens"
    terminal.note(f"{prices}; your bill may differ", "dim")


@click.command("test")
@click.argument("name", metavar="[MODEL]", required=False)
@json_option
@pass_session
def test(session: Session, name: str | None, as_json: bool) -> None:
    """Test MODEL (a spec or an alias; by default the model for edits) with a minimal call."""
    from repoagent.cli.commands.model_calls import spent_object
    from repoagent.edit.model_setup import model_setup
    from repoagent.llm.open_model import smallest_request
    from repoagent.llm.usage import estimate_usage

    settings, terminal = session.open(find_layout(), {"model": name} if name else None)
    started = time.monotonic()
    with terminal.working("asking the model") as working:
        ready = model_setup(settings, say=terminal.warn)
        spec, meter = ready.model.spec, ready.meter
        request = smallest_request(spec)
        meter.before_attempt(estimate_usage(request), spec)
        pieces: list[float] = []
        reply = ready.model.complete(request, lambda piece: pieces.append(time.monotonic() - started))
        meter.add(reply.usage, spec)
        working.quiet()
    seconds = time.monotonic() - started
    usage, cost = meter.usage, meter.cost
    if as_json:
        content = {
            **(spent_object(ready) or {}),
            "served_by": display_name(reply.model),
            "reply": reply.text,
            "first_token_seconds": round(pieces[0], 3) if pieces else None,
            "seconds": round(seconds, 3),
        }
        write_json(terminal, content)
        return
    about = "about " if usage.estimated else ""
    price = "price unknown" if cost is None else f"${cost:.6f}"
    is_other = reply.model not in ("", spec)
    served = f" (served by {sanitize(display_name(reply.model))})" if is_other else ""
    terminal.result(
        f"{display_name(spec)} answers{served}: {' '.join(reply.text.split())[:60]}\n"
        f"{seconds:.1f} s · {about}{usage.total - usage.output} + {usage.output} tokens · {price}\n"
    )


def _facts(row: StatusRow) -> str:
    """The model and the origin of its name, its state, context window, price, edit format and the origin of the key."""
    home = f"file:{Path.home()}/"
    origin = f"~/{row.origin.removeprefix(home)}" if row.origin.startswith(home) else row.origin
    facts = [f"{display_name(row.spec)}{f' ({origin})' if origin else ''}"] if row.spec else []
    facts.append(row.status.problem or ("ok" if row.status.tried else "not tested"))
    if row.spec:
        facts += [f"{row.context:,} tokens"] if row.context else []
        price, source = row.known.price, row.known.sources.get("price", "")
        if price is None:
            facts.append("price unknown")
        elif source != "free":
            yours = " (yours)" if source == "configured" else ""
            facts.append(f"${price.input:g} in, ${price.output:g} out{yours}")
        facts.append(f"edit format: {row.known.format}")
        facts += [f"runs: {row.status.runs}"] if row.status.runs else []
    facts += [f"key: {row.status.key}"] if row.status.key else []
    return sanitize(" · ".join(facts))


def _status_object(row: StatusRow) -> dict[str, object]:
    """`reachable` is null if that was not tested."""
    tested = True if row.status.tried else None
    return {
        "name": row.name,
        "key": row.status.key or None,
        "reachable": False if row.status.problem else tested,
        "problem": row.status.problem or None,
    }
