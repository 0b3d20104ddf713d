"""A page that works offline: nothing from outside is loaded, and nothing but its own script and rules counts.

Their hashes stand in its Content-Security-Policy, so that a name or a subject that got through as markup could still do
nothing.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable
from hashlib import sha256
from html import escape


def page(title: str, rules: str, body: Iterable[str], *, script: str = "", data: object = None) -> str:
    """The whole page. `title` and what `body` holds are markup; `data` is what the script reads from "#data"."""
    own = f"style-src {_digest(rules)};" + (f" script-src {_digest(script)};" if script else "")
    policy = f"default-src 'none'; {own} base-uri 'none'; form-action 'none'"
    scripts = (
        f'<script type="application/json" id="data">{_json(data)}</script>\n<script>{script}</script>\n'
        if script
        else ""
    )
    return "".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n',
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
            '<meta name="referrer" content="no-referrer">\n',
            f"<title>{title}</title>\n<style>{rules}</style>\n</head>\n<body>\n",
            *body,
            f"{scripts}</body>\n</html>\n",
        ]
    )


def markup(text: str) -> str:
    """Text as markup, in an element or an attribute."""
    return escape(text, quote=True)


def _json(data: object) -> str:
    """JSON in which nothing can end the element that holds it."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _digest(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
