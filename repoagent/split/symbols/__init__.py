"""What a file defines and where: queries over its syntax tree, the outline made of them, a definition by its name."""
