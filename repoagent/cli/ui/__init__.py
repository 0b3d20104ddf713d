"""What the commands share on a terminal: tables, colors, diffs, progress, questions, the pager."""
