"""What a shell is told when <TAB> is pressed.

words.py    the line as it is typed -> words; a candidate -> what the shell puts there
answer.py   the line -> candidates, through click's own table of commands and options
kinds.py    which parameter takes what: files, revisions, models, keys ...
values.py   the candidates of each kind, of this repository
*.bash, *.zsh, *.fish  the scripts that ask
"""
