"""A calculator for one line of text.

Numbers, + - * / ^ and brackets; names for constants, functions of one or more arguments, and variables that are
set by NAME = EXPRESSION. Exact where it can be: numbers are fractions.

    >>> Calculator().run("1/3 + 1/6")
    Fraction(1, 2)
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

TOKEN = re.compile(
    r"""
    (?P<space>  \s+ )
  | (?P<number> \d+ (?: \. \d* )? | \. \d+ )
  | (?P<name>   [A-Za-z_]\w* )
  | (?P<other>  . )
    """,
    re.VERBOSE,
)
OPERATORS = "+-*/^(),="
DEEPEST = 100  # brackets and signs in each other; more is a mistake, and would end Python's own stack


class CalcError(Exception):
    """What is wrong with the text, for the person who wrote it. `position` counts from 0."""

    def __init__(self, message: str, position: int | None = None) -> None:
        super().__init__(message)
        self.position = position


@dataclass(frozen=True)
class Token:
    kind: str  # "number", "name", an operator, or "end"
    text: str
    position: int


def tokens(text: str) -> Iterator[Token]:
    """The tokens of `text`, the last of them of kind "end"."""
    for found in TOKEN.finditer(text):
        kind, word = found.lastgroup, found[0]
        if kind == "space":
            continue
        if kind == "other":
            if word not in OPERATORS:
                raise CalcError(f"{word!r} is not understood", found.start())
            kind = word
        yield Token(kind or "", word, found.start())
    yield Token("end", "", len(text))


# ---- the tree ------------------------------------------------------------------------------------------------

@dataclass(frozen=True)
class Number:
    value: Fraction


@dataclass(frozen=True)
class Name:
    name: str
    position: int


@dataclass(frozen=True)
class Sign:
    of: object


@dataclass(frozen=True)
class Binary:
    operator: str
    left: object
    right: object
    position: int


@dataclass(frozen=True)
class Call:
    name: str
    arguments: tuple[object, ...]
    position: int


@dataclass(frozen=True)
class Assignment:
    name: str
    value: object


class Parser:
    """Recursive descent: one method for each level of precedence, the loosest first."""

    def __init__(self, text: str) -> None:
        self.tokens = list(tokens(text))
        self.at = 0
        self.depth = 0

    @property
    def next(self) -> Token:
        return self.tokens[self.at]

    def take(self, *kinds: str) -> Token | None:
        """The next token if it is of one of `kinds`, which is then behind us."""
        token = self.next
        if token.kind not in kinds:
            return None
        self.at += 1
        return token

    def need(self, kind: str) -> Token:
        token = self.take(kind)
        if token is None:
            found = self.next.text or "the end"
            raise CalcError(f"expected {kind!r}, found {found!r}", self.next.position)
        return token

    def line(self) -> object:
        """NAME = EXPRESSION, or an expression."""
        if self.next.kind == "name" and self.tokens[self.at + 1].kind == "=":
            name = self.need("name")
            self.need("=")
            tree: object = Assignment(name.text, self.sum())
        else:
            tree = self.sum()
        self.need("end")
        return tree

    def sum(self) -> object:
        tree = self.product()
        while token := self.take("+", "-"):
            tree = Binary(token.kind, tree, self.product(), token.position)
        return tree

    def product(self) -> object:
        tree = self.sign()
        while token := self.take("*", "/"):
            tree = Binary(token.kind, tree, self.sign(), token.position)
        return tree

    def sign(self) -> object:
        # a minus binds less than the power: -2 ^ 2 is -4
        self.depth += 1
        if self.depth > DEEPEST:
            raise CalcError("too deep", self.next.position)
        try:
            if self.take("-"):
                return Sign(self.sign())
            self.take("+")
            return self.power()
        finally:
            self.depth -= 1

    def power(self) -> object:
        base = self.atom()
        if token := self.take("^"):  # from the right: 2 ^ 3 ^ 2 is 2 ^ 9
            return Binary("^", base, self.sign(), token.position)
        return base

    def atom(self) -> object:
        if token := self.take("number"):
            return Number(Fraction(token.text))
        if token := self.take("name"):
            if self.take("("):
                return Call(token.text, self.arguments(), token.position)
            return Name(token.text, token.position)
        self.need("(")
        tree = self.sum()
        self.need(")")
        return tree

    def arguments(self) -> tuple[object, ...]:
        """What stands between the brackets of a call, and the closing one."""
        if self.take(")"):
            return ()
        found = [self.sum()]
        while self.take(","):
            found.append(self.sum())
        self.need(")")
        return tuple(found)


# ---- its value -----------------------------------------------------------------------------------------------

def divide(left: Fraction, right: Fraction) -> Fraction:
    if right == 0:
        raise CalcError("division by zero")
    return left / right


def power(left: Fraction, right: Fraction) -> Fraction:
    if right.denominator != 1:
        return Fraction(float(left) ** float(right))
    if abs(right) > 1000:
        raise CalcError("the exponent is too large")
    if left == 0 and right < 0:
        raise CalcError("division by zero")
    return left ** int(right)


BINARY: Mapping[str, Callable[[Fraction, Fraction], Fraction]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "/": divide,
    "^": power,
}

CONSTANTS = { "pi": Fraction(math.pi), "e": Fraction(math.e), "dozen": Fraction(12) }

FUNCTIONS: Mapping[str, Callable[..., Fraction]] = {
    "abs":   lambda x: abs(x),
    "floor": lambda x: Fraction(math.floor(x)),
    "ceil":  lambda x: Fraction(math.ceil(x)),
    "sqrt":  lambda x: Fraction(math.sqrt(x)),
    "min":   min,
    "max":   max,
}


class Calculator:
    """Keeps the variables between the lines."""

    def __init__(self) -> None:
        self.variables: dict[str, Fraction] = {}

    def run(self, text: str) -> Fraction:
        """The value of one line. Raises CalcError, and changes nothing then."""
        return self.value(Parser(text).line())

    def value(self, tree: object) -> Fraction:
        match tree:
            case Number(value):
                return value
            case Sign(of):
                return -self.value(of)
            case Name(name, position):
                return self.lookup(name, position)
            case Assignment(name, of):
                if name in CONSTANTS:
                    raise CalcError(f"{name} is a constant", 0)
                self.variables[name] = value = self.value(of)
                return value
            case Binary(operator, left, right, position):
                try:
                    return BINARY[operator](self.value(left), self.value(right))
                except CalcError as error:
                    error.position = position if error.position is None else error.position
                    raise
            case Call(name, arguments, position):
                return self.call(name, [self.value(argument) for argument in arguments], position)
        raise AssertionError(tree)

    def lookup(self, name: str, position: int) -> Fraction:
        for table in (self.variables, CONSTANTS):
            if name in table:
                return table[name]
        raise CalcError(f"there is no {name}", position)

    def call(self, name: str, arguments: list[Fraction], position: int) -> Fraction:
        if name not in FUNCTIONS:
            raise CalcError(f"there is no function {name}", position)
        try:
            return FUNCTIONS[name](*arguments)
        except (TypeError, ValueError) as error:
            raise CalcError(f"{name} can't be called like this", position) from error


def shown(value: Fraction) -> str:
    """The value for people: exact when it is short, else with 10 digits."""
    if value.denominator == 1:
        return str(value.numerator)
    return f"{float(value):.10g}"
