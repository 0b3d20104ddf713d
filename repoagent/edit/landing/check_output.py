"""What a failing check printed, cut to what a small model can use."""

from __future__ import annotations

import re

CHECK_LINES, CHECK_CHARACTERS = 24, 900  # of a failing check that a small model is shown
_NOISE = re.compile(  # of tracebacks, and of node's and Python's test runners
    r"\s*(?:Traceback |File \"|at \S|\^+\s*$|[-=]{5,}|Ran \d|TAP version|#\s|\d+\.\.\d+$|\.\.\.$|---$|ok \d|not ok \d|"
    r"\S.*\((?:file:|node:)|(?:duration_ms|location|type|failureType|code|name|operator|stack|error|expected|actual|"
    r"generatedMessage):\s*(?:\|-|'[^']*'|[\d.]+|true|false)?\s*$|\d+: \d+$)"
)


def start_of(output: str) -> str:
    """The first lines of what a check printed; without the frames of a traceback and what test runners measure."""
    lines = [line for line in output.split("\n") if line.strip() and not _NOISE.match(line)]
    return "\n".join(lines[:CHECK_LINES])[:CHECK_CHARACTERS]
