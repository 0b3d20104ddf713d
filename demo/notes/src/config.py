"""Read the settings of the note server from a JSON file."""

import json
from pathlib import Path

DEFAULTS = {"host": "127.0.0.1", "port": 8080, "debug": False}


def load_config(path):
    """Return the defaults, overridden by what the file says."""
    text = Path(path).read_text(encoding="utf-8")
    config = dict(DEFAULTS)
    config.update(json.loads(text))
    return config


def address(config):
    """The address to listen on, as HOST:PORT."""
    return f"{config['host']}:{config['port']}"
