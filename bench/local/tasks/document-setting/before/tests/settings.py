"""The table in the README and env.example name the same settings, in the same order."""

import re
import sys
from pathlib import Path

part = Path("README.md").read_text().split("## Configuration")[1].split("\n## ")[0]
table = re.findall(r"^\| `([A-Z_]+)` *\|", part, re.MULTILINE)
example = re.findall(r"^([A-Z_]+)=", Path("env.example").read_text(), re.MULTILINE)
if "CACHE_TTL" not in table:
    sys.exit("the table in README.md has no CACHE_TTL")
if "CACHE_TTL" not in example:
    sys.exit("env.example has no CACHE_TTL")
for name, found in (("README.md", table), ("env.example", example)):
    if found != sorted(found):
        sys.exit(f"{name}: the settings are not in alphabetical order: {', '.join(found)}")
if table != example:
    sys.exit(f"README.md has {', '.join(table)}, env.example has {', '.join(example)}")
