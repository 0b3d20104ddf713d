"""The options that every command has which asks a model, so that they are named and explained alike everywhere."""

from __future__ import annotations

from pathlib import Path

import click

file_path = click.Path(path_type=Path, dir_okay=False, allow_dash=True)

model_option = click.option(
    "--model", metavar="SPEC", help="PROVIDER/NAME, command:CMD, manual or replay:FILE."
)
effort_option = click.option(
    "--effort",
    type=click.Choice(["low", "medium", "high", "xhigh", "max"]),
    metavar="LEVEL",
    help="How much to think: low, medium, high, xhigh or max.",
)
max_tokens_option = click.option(
    "--max-tokens", type=click.IntRange(1), metavar="N", help="Use at most N tokens, in and out."
)
max_cost_option = click.option(
    "--max-cost", type=click.FloatRange(min=0), metavar="USD", help="Spend at most this many dollars."
)
record_option = click.option(
    "--record", type=file_path, metavar="FILE", help="Record the replies, for --model replay:FILE."
)
reply_option = click.option(
    "--reply",
    type=file_path,
    metavar="FILE",
    help="Read the reply for --model manual from FILE; - is standard input.",
)
show_prompt_option = click.option(
    "--show-prompt", is_flag=True, help="Print what would be sent and its tokens; send nothing."
)
