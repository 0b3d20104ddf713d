import re
from pathlib import Path

lines = Path("compose.yml").read_text().split("\n")
part = lines[lines.index("  redis:") + 1 : lines.index("  web:")]
old = [
    "    image: redis:7.2",
    "    <<: *restart",
    '    command: redis-server --save "" --appendonly no   # a cache only: nothing is kept',
    "    volumes:",
    "      - cache:/data",
    "    logging: *logging",
]
start = part.index("    healthcheck:")
check = [line for line in part[start + 1 :][:4]]
rest = part[:start] + part[start + 5 :]
assert sorted(line for line in rest if line) == sorted(old), rest
assert rest.index("      - cache:/data") == rest.index("    volumes:") + 1
test = check[0]
ways = (r'\["CMD", "redis-cli", "ping"\]', r'\["CMD-SHELL", "redis-cli ping( \|\| exit 1)?"\]', r'"?redis-cli ping"?')
assert any(re.fullmatch("      test: " + way, test) for way in ways), test
assert sorted(check[1:]) == ["      interval: 10s", "      retries: 5", "      timeout: 3s"], check
