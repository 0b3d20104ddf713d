"""Patches in the formats that models write: parse them, locate them, and apply all or none.

Reading order: model (`FilePatch`, `Hunk`, `Text`), parse/ (an answer to patches), targets (names to files), locate/
(hunks to lines), apply_file and splice (new bytes), combine (several patches to a file), refusal (reasons and
tolerances); apply_answer is the entry point."""
