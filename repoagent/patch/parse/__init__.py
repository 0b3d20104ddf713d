"""An answer's text -> what it asks for, file by file: `FilePatch` and `Hunk`. Of the files no more than
their names are known here, and those need not be.

`spans` finds where the patches stand (`marks`, `fences`, `wrapping`, `numbering`, `bare`, `heredoc`), `answer` reads
each in its form (`diff` and `hunks`, `envelope`, `blocks`) with its file's name (`names`) and what the words before
it say (`prose`). Where one text can be read in two ways, `decide` asks the file.
"""
