import re
from pathlib import Path

lines = Path(".ci/tests.yml").read_text().split("\n")
start = lines.index("      python:") + 1
end = lines.index("      os: [ linux, macos ]")
versions = [re.fullmatch(r'        - "(3\.\d+)"( +#.*)?', line) for line in lines[start:end]]
assert all(versions), lines[start:end]
assert sorted(version[1] for version in versions) == ["3.10", "3.11", "3.12", "3.13"]
