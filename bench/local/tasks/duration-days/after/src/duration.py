"""Durations as people write them: 90s, 5m, 1h30m."""

import re

_PART = re.compile(r"(\d+)([dhms])")
_SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1}


def parse_duration(text):
    """The seconds in `text`. Raises ValueError for what is no duration."""
    text = text.strip().lower()
    # An empty text is an error and not zero: the callers rely on it.
    if not text or _PART.sub("", text):
        raise ValueError(f"not a duration: {text!r}")
    return sum(int(number) * _SECONDS[unit] for number, unit in _PART.findall(text))


def format_duration(seconds):
    """The shortest text for whole `seconds`; hours are the largest unit."""
    if seconds == 0:
        return "0s"
    parts = []
    for unit in "hms":
        number, seconds = divmod(seconds, _SECONDS[unit])
        if number:
            parts.append( f"{number}{unit}" )
    return "".join(parts)
