"""Terminal output shared by the commands: tables, colors, diffs, progress, questions, the pager."""
