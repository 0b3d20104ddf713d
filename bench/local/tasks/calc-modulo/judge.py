from fractions import Fraction

from calc import CalcError, Calculator

calculator = Calculator()


def position(text: str) -> int | None:
    try:
        calculator.run(text)
    except CalcError as error:
        assert str(error) == "division by zero", error
        return error.position
    raise AssertionError(text)


for text, value in {
    "7 % 3": 1, "7%3": 1, "1 + 7 % 4 * 2": 7, "10 / 4 % 2": Fraction(1, 2), "2 * 7 % 4": 2, "2 ^ 3 % 5": 3, "-7 % 3": 2, "10 - 7 % 4": 7,
    "x = 9 % 5": 4, "x % 3": 1, "max(5 % 3, 1)": 2, "7 / 2": Fraction(7, 2), "2 ^ 3 ^ 2": 512, "-2 ^ 2": -4, "(1 + 2) * 3": 9,
}.items():
    assert calculator.run(text) == value, (text, calculator.run(text))
assert position("1 % 0") == 2
assert position("1 / (1 - 1)") == 2
for text in ("%", "1 %", "1 $ 2", "% 3"):
    try:
        calculator.run(text)
    except CalcError:
        continue
    raise AssertionError(text)
