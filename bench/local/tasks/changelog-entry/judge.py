from pathlib import Path

text = Path("CHANGELOG.md").read_text()
new = "- The importer no longer skips the last line of a file.\n"
old = "- Dates before 1970 are written with four digits.\n"
part = text.split("### Fixed\n", 2)[1].split("## 1.4.0")[0]
assert part.strip("\n") + "\n" in (old + new, new + old), part
assert text.count(new) == 1
