"""What a person looks at: the terminal or the pipes in its place, the pager, the editor, and how things are drawn."""
