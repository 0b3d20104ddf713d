"""Terminal output shared by the commands: tables, colors, diffs, progress, questions and the pager."""
