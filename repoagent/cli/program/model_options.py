"""The options that every command has which asks a model, so that they are named and explained alike everywhere."""

from __future__ import annotations

from pathlib import Path

import click

file_path = click.Path(path_type=Path, dir_okay=False, allow_dash=True)

model_option = click.option(
    "--model", metavar="SPEC", help="provider/NAME, command:CMD, manual or replay:FILE."
)
effort_option = click.option(
    "--effort",
    type=click.Choice(["low", "medium", "high", "xhigh", "max"]),
    help="How much the model thinks.",
)
max_tokens_option = click.option(
    "--max-tokens", type=click.IntRange(1), metavar="N", help="Tokens at most, in and out."
)
max_cost_option = click.option(
    "--max-cost", type=click.FloatRange(min=0), metavar="USD", help="Dollars at most."
)
record_option = click.option(
    "--record", type=file_path, metavar="FILE", help="Record the replies for --model replay:FILE."
)
reply_option = click.option(
    "--reply", type=file_path, metavar="FILE", help="The reply, for --model manual; - is standard input."
)
show_prompt_option = click.option(
    "--show-prompt", is_flag=True, help="Print what would be sent, with its tokens; send nothing."
)
