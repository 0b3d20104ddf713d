"""Parse the command line of a bench from a table of its options."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

REPOSITORIES = "repositories with their full history"


def options(
    program: str, about: str | None, arguments: Sequence[str] | None = None, **table: tuple[Any, ...]
) -> argparse.Namespace:
    """Parse `arguments`, by default those of the process. Each keyword describes an option: its default, a line of help
    and, if needed, a dict of further values for argparse.

    The default False makes a flag; a type, an option without a default; [type], a required option with one or more
    values; (type,), an optional one with any number of values. An upper-case name is a positional argument.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m {program}", description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, (default, help, *more) in table.items():
        values: dict[str, Any] = {"help": help}
        if default is False:
            values["action"] = "store_true"
        elif isinstance(default, type):
            values["type"] = default
        elif isinstance(default, list | tuple):
            required = isinstance(default, list)
            values |= {"type": default[0], "nargs": "+", "action": "extend"}
            values |= {"required": True} if required else {"default": []}
        else:
            values |= {"type": type(default), "default": default, "help": f"{help} (%(default)s)".lstrip()}
        values |= more[0] if more else {}
        if name.isupper():
            for key in ("required", "action"):
                values.pop(key, None)
            parser.add_argument(name.lower(), **values)
        else:
            parser.add_argument(f"--{name.replace('_', '-')}", **values)
    return parser.parse_args(arguments)
