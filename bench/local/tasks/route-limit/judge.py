import re
from pathlib import Path

text = Path("config/routes.yml").read_text()
block = text[text.index("  reports.export:\n") : text.index("  reports.export-all:")]
lines = [line.split(" #")[0].rstrip() for line in block.split("\n") if line.strip()]
at = next(number for number, line in enumerate(lines) if line.startswith("    limit:"))
limit = re.sub(r"\s+", " ", " ".join(lines[at : at + (3 if lines[at].endswith(":") else 1)]))
assert re.fullmatch(r" ?limit: ((\{ ?)?requests: 30,? per: minute( ?\})?|\{ ?per: minute, requests: 30 ?\})", limit), limit
rest = [line.strip() for line in lines[:at] + lines[at + (3 if lines[at].endswith(":") else 1) :]]
assert rest == ['reports.export:', 'method: GET', 'path: /reports/export', 'handler: reports.export', 'timeout: 120s', 'scopes:', '- "reports:read"'], rest
