"""Judge Python by the standard `ast` and `tokenize`."""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings
from collections.abc import Iterator, Sequence

from bench.split.judges import Unjudged
from bench.split.marks import Item, Marks, with_comments

_TRAILING = re.compile(rb"[ \t]*[,;]?(?:[ \t]*#[^\n]*)?")
_LISTS = ("body", "orelse", "finalbody", "handlers", "cases")
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def marks(kind: str, text: bytes) -> Marks:
    """Units: statements of every level, clauses, and the items of displays and calls that span lines."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
        judge = _Judge(text)
    except (SyntaxError, ValueError, tokenize.TokenError, RecursionError) as error:
        raise Unjudged(str(error)) from error
    judge.body(tree.body, None, 0, len(text))
    return judge.marks


class _Judge:
    def __init__(self, text: bytes) -> None:
        self.marks = Marks(text, _TRAILING)
        self.text = text
        self.starts = [0, *(match.end() for match in re.finditer(rb"\r\n|\n|\r", text))]
        self.comments = list(self._comments())

    def _comments(self) -> Iterator[Item]:
        """Comments alone on their line, as byte offsets."""
        for token in tokenize.tokenize(io.BytesIO(self.text).readline):
            if token.type == tokenize.COMMENT and not token.line[: token.start[1]].strip():
                line = self.starts[token.start[0] - 1]
                start = line + len(token.line[: token.start[1]].encode())
                yield Item(start, start + len(token.string.encode()), "comment", sticks="orphan")

    def _offset(self, line: int, column: int) -> int:
        return self.starts[line - 1] + column

    def _range(self, node: ast.stmt | ast.expr | ast.keyword) -> tuple[int, int]:
        first, column = node.lineno, node.col_offset
        for decorator in getattr(node, "decorator_list", ()):
            first = min(first, decorator.lineno)
        start = self._offset(first, column)
        return start, self._offset(node.end_lineno or node.lineno, node.end_col_offset or 0)

    def body(self, nodes: Sequence[ast.stmt], head: int | None, first: int, last: int) -> None:
        """Mark a suite, with the comments from `first` to `last` that are in none of its statements."""
        items: list[Item] = []
        for node in nodes:
            start, end = self._range(node)
            items.append(Item(start, end, self._label(node), isinstance(node, _DEFINITIONS)))
        self.marks.container(self._with_comments(items, first, last), head, None, "body")
        for node in nodes:
            self._inside(node)

    def _with_comments(self, items: list[Item], first: int, last: int) -> list[Item]:
        return with_comments(items, self.comments, first, last)

    def _inside(self, node: ast.stmt) -> None:
        if node.lineno == node.end_lineno:
            return
        start, _ = self._range(node)
        core = self._offset(node.lineno, node.col_offset)
        if isinstance(node, _DEFINITIONS) and node.decorator_list:
            self.marks.seam(self.marks.start_of(start) + 1, self.marks.start_of(core), "orphan", "decorator")
        head, after = core, core
        for name in _LISTS:
            inner: list[ast.AST] = getattr(node, name, [])
            if not inner:
                continue
            if name in ("orelse", "finalbody") or isinstance(inner[0], ast.ExceptHandler):
                head = self._clause(after, self._first(inner[0]))
            last = self._suite(inner, head, name)
            if name in ("orelse", "finalbody"):
                self.marks.unit(head, last, "clause")
            head = after = last
        for value in ast.iter_child_nodes(node):
            if isinstance(value, ast.expr):
                self._expression(value, core)

    def _suite(self, inner: list[ast.AST], head: int, name: str) -> int:
        """Mark a list of statements, handlers or cases, and return its end."""
        if isinstance(inner[0], ast.stmt):
            statements = [node for node in inner if isinstance(node, ast.stmt)]
            last = self._range(statements[-1])[1]
            elif_at = self._range(statements[0])[0]
            if name == "orelse" and self.text.startswith(b"elif", elif_at):
                self._inside(statements[0])  # mark only the contents of the `elif`
            else:
                self.body(statements, head, head, last)
            return last
        items: list[Item] = []
        for node in inner:
            if isinstance(node, ast.ExceptHandler):
                start = self._offset(node.lineno, node.col_offset)
                body = node.body
            elif isinstance(node, ast.match_case):
                start = self.marks.start_of(self._offset(node.pattern.lineno, 0))
                body = node.body
            else:
                continue
            end = self._range(body[-1])[1]
            items.append(Item(start, end, "clause"))
            self.body(body, start, start, end)
        with_comments = self._with_comments(items, head, items[-1].end)
        self.marks.container(with_comments, None if name == "handlers" else head, None, name)
        return items[-1].end

    def _first(self, node: ast.AST) -> int:
        if isinstance(node, ast.ExceptHandler):
            return self._offset(node.lineno, node.col_offset)
        assert isinstance(node, ast.stmt)
        return self._range(node)[0]

    def _clause(self, after: int, first: int) -> int:
        """The start of the line of `else`, `elif`, `finally` or `except` between two suites."""
        match = re.compile(rb"^[ \t]*(?:else|elif|finally|except)\b", re.MULTILINE).search(
            self.text, after, first
        )
        return match.start() if match else first

    def _expression(self, root: ast.expr, head: int) -> None:
        pending: list[tuple[ast.AST, int]] = [(root, head)]
        while pending:
            node, head = pending.pop()
            if getattr(node, "lineno", 0) == getattr(node, "end_lineno", 1):
                continue
            pairs = list(self._parts(node))
            if pairs and isinstance(node, ast.expr):
                items = [Item(start, end, "item") for start, end in pairs]
                end = self._range(node)[1]
                close = (end - 1, end) if self.text[end - 1 : end] in (b")", b"]", b"}") else None
                opened = self._range(node)[0]
                if isinstance(node, ast.Call):
                    opened = self.text.rfind(b"(", 0, items[0].start)
                head = self.text.rfind(b"\n", 0, opened) + 1  # the line of the opening bracket
                self.marks.container(
                    self._with_comments(items, self._range(node)[0], end), head, close, "display"
                )
                heads = {start: start for start, _ in pairs}
            else:
                heads = {}
            for child in ast.iter_child_nodes(node):
                at = self._range(child)[0] if isinstance(child, ast.expr | ast.keyword) else -1
                pending.append((child, heads.get(at, head)))

    def _parts(self, node: ast.AST) -> Iterator[tuple[int, int]]:
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            yield from (self._range(each) for each in node.elts)
        elif isinstance(node, ast.Dict):
            for key, each in zip(node.keys, node.values, strict=True):
                yield (self._range(key or each)[0], self._range(each)[1])
        elif isinstance(node, ast.Call):
            arguments: list[ast.expr | ast.keyword] = [*node.args, *node.keywords]
            yield from sorted(self._range(each) for each in arguments)

    def _label(self, node: ast.stmt) -> str:
        return self.text[self._range(node)[0] :][:60].split(b"\n")[0].strip().decode(errors="replace")
