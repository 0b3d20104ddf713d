import re
from pathlib import Path

readme = Path("README.md").read_text().split("\n")
example = Path("env.example").read_text().split("\n")
at = next(number for number, line in enumerate(readme) if line.startswith("| `BIND`"))
assert readme[at] == "| `BIND`           | `127.0.0.1:8080` | where it listens                          |"
assert re.fullmatch(r"\| `CACHE_TTL` *\| *`300` *\| .*(answer|kept|cache|second).* *\|", readme[at + 1]), readme[at + 1]
assert readme[at + 2].startswith("| `DATABASE_URL`")
at = example.index("BIND=127.0.0.1:8080")
assert re.fullmatch(r"CACHE_TTL=300( +#.*)?", example[at + 1]), example[at + 1]
assert example[at + 2].startswith("DATABASE_URL=")
