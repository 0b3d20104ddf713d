"""Patches in the formats that models write: parse them, locate them, and apply all or none.

Reading order: model (`FilePatch`, `Hunk`, `Text`), parse/ (from an answer to its patches), targets (from names to
files), locate/ (from hunks to lines), apply_file and splice (the new bytes), combine (several patches to one file),
refusal (reasons and tolerances); apply_answer is the entry point."""
