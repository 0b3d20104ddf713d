"""Text without the secrets in it that the environment holds, or that look like one: for reports and traces.

It knows shapes, not providers, and loads nothing; what is sent to a model goes through `store.masking`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_SECRET_NAME = re.compile(r"(key|token|secret|passw|credential)", re.IGNORECASE)
_SECRETS = (
    re.compile(r"\b(?:sk|pk|ghp|gho|ghs|github_pat|glpat|xox[a-z]|AIza|AKIA)[-_A-Za-z0-9]{12,}"),
    re.compile(r"(?<=://)[^/@\s]+(?=@)"),
    re.compile(r"(?i)(?<=bearer )\S+"),
    re.compile(r"(?i)(?:key|token|secret|password)[\"']?[ \t]*[=:]\s*[\"']?([^\s\"']+)"),
)


def redact(text: str, env: Mapping[str, str]) -> str:
    """`text` without the secrets of the environment, nor anything else that looks like one."""
    values = {value for name, value in env.items() if _SECRET_NAME.search(name) and len(value) >= 6}
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value, "***")
    for pattern in _SECRETS:
        text = pattern.sub(lambda match: match[0].replace(match[match.lastindex or 0], "***"), text)
    return text
