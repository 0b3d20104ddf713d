"""Split large files into segments at natural boundaries, and join edited segments again.

`splitter` finds the boundaries: candidates with costs from a syntax tree (`boundaries`) or from lines
(`text_boundaries`), the cheapest of which `pack` selects. A split on disk is a folder with an index: `folder` and
`folder_index` plan and read it, `create` and `refresh` make and update it, `folder_writer` writes it so that a crash
leaves the old or the new one. `relocate` finds earlier cuts in a new text. `join` merges edited segments into the
source, with `rebase` for the boundaries and `encodings` for encoding and line endings.
"""
