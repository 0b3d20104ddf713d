"""Split large files into segments at natural boundaries, and join edited segments again.

`splitter` finds the boundaries: candidates with costs from a syntax tree (`boundaries`) or from lines
(`text_boundaries`), of which `pack` selects the cheapest. A split on disk is a folder with an index (`folder_index`):
`source` finds the text, `split_plan` plans the split, `create` and `refresh` write and update it, `relocate` finds
earlier cuts in a new text, and `folder_writer` writes so that a crash leaves the old or the new split. `join` merges
edited segments into the source; `normalize_segment` undoes changes of editors to encoding, line endings and blank
lines.
"""
