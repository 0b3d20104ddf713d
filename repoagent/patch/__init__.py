"""Patches in the formats that models write: parsed, located and applied, all of them or none.

Reading order: model (`FilePatch`, `Hunk`, `Text`), parse/ (an answer to patches), targets (names to files), locate/
(hunks to lines), apply and splice (new bytes), combine (several patches of a file), errors (reasons and tolerances);
apply_file is the entry point."""
