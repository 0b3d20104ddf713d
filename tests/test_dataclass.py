"""repoagent.dataclass: classes that behave as those of the standard library, method by method."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import field
from typing import Any

import pytest

from repoagent.dataclass import dataclass

Namespace = dict[str, Any]
Decorator = Callable[..., Any]


def classes(decorator: Decorator) -> Namespace:
    @decorator(frozen=True)
    class Empty:
        """Nothing."""

    @decorator(frozen=True)
    class One:
        """A single field."""

        value: Any

    @decorator(frozen=True)
    class Point:
        """Fields with and without a default."""

        x: int
        y: int = 0
        names: list[str] = field(default_factory=list, repr=False)
        note: str = field(default="", compare=False)

    @decorator(frozen=True)
    class Named(Point):
        """Fields of its own behind those of its base."""

        name: str = "origin"

    @decorator(frozen=True)
    class Checked:  # noqa: PLW1641 (both decorators make a hash of the fields)
        """Methods of its own."""

        value: int

        def __post_init__(self) -> None:
            if self.value < 0:
                raise ValueError(self.value)

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return True

    @decorator
    class Mutable:
        """Not frozen."""

        value: int = 1

    return {name: value for name, value in locals().items() if isinstance(value, type)}


OURS, THEIRS = classes(dataclass), classes(dataclasses.dataclass)
USES: dict[str, Callable[[Namespace], object]] = {
    "init": lambda c: vars(c["Point"](1, note="n")),
    "a fresh default": lambda c: c["Point"](1).names is c["Point"](1).names,
    "a missing argument": lambda c: c["Point"](),
    "an unknown argument": lambda c: c["Point"](1, z=1),
    "the parameters": lambda c: list(inspect.signature(c["Named"]).parameters),
    "post-init": lambda c: c["Checked"](-1),
    "repr": lambda c: [repr(c["Empty"]()), repr(c["One"]("a")), repr(c["Named"](1)), repr(c["Checked"](1))],
    "repr of a circle": lambda c: circle(c["One"]),
    "eq": lambda c: [
        c["Point"](1) == c["Point"](1, note="other"),
        c["Point"](1) == c["Point"](2),
        c["Point"](1) == c["Named"](1),
        c["Point"](1) == (1, 0, []),
        c["One"](float("nan")) == c["One"](1),
        c["Empty"]() == c["Empty"](),
        c["Checked"](1) == c["Checked"](2),
    ],
    "hash": lambda c: [hash(c["Empty"]()), hash(c["One"]("a")), hash(c["Checked"](1))],
    "the hash of what has none": lambda c: hash(c["Point"](1)),
    "assignment": lambda c: setattr(c["Point"](1), "x", 2),
    "a new attribute": lambda c: setattr(c["Point"](1), "z", 2),
    "deletion": lambda c: delattr(c["Point"](1), "x"),
    "replace": lambda c: repr(dataclasses.replace(c["Named"](1), y=5)),
    "asdict": lambda c: dataclasses.asdict(c["Named"](1)),
    "fields": lambda c: [item.name for item in dataclasses.fields(c["Named"])],
    "match": lambda c: c["Named"].__match_args__,
    "copy": lambda c: repr(copy.deepcopy(c["Named"](1, names=["a"]))),
    "not frozen": lambda c: [repr(c["Mutable"]()), c["Mutable"]() == c["Mutable"](1), c["Mutable"].__hash__],
}


@dataclass(frozen=True)
class Pickled:
    value: int


def circle(one: Any) -> str:
    values: list[Any] = []
    item = one(values)
    values.append(item)
    return repr(item)


def outcome(use: Callable[[Namespace], object], namespace: Namespace) -> object:
    try:
        return use(namespace)
    except (AttributeError, TypeError, ValueError) as error:
        return type(error), str(error)


@pytest.mark.parametrize("use", USES)
def test_a_class_behaves_as_in_the_standard_library(use: str) -> None:
    assert outcome(USES[use], OURS) == outcome(USES[use], THEIRS)


def test_an_instance_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(Pickled(3))) == Pickled(3)


def test_an_option_of_a_field_that_is_not_supported_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Odd has a field that sets init, kw_only or hash"):

        @dataclass(frozen=True)
        class Odd:
            value: int = field(default=1, init=False)
