"""Split large files into segments at natural boundaries, and join edited segments again.

`splitter` finds the boundaries: candidates with costs from a syntax tree (`boundaries`) or from lines
(`text_boundaries`), of which `pack` selects the cheapest. A split on disk is a folder with an index (`folder_index`):
`source` finds the text and plans the split, `folder_writer` writes it so that a crash leaves the old or the new one,
`refresh` updates it and keeps cuts and edits, and `join` merges edited segments into the source.
"""
