from src.duration import format_duration, parse_duration

assert parse_duration("2d") == 172_800
assert parse_duration("1d12h") == 129_600
assert parse_duration("1D 	".strip()) == 86_400
assert parse_duration("1d1h1m1s") == 90_061
assert parse_duration("1h30m") == 5400
assert parse_duration("7s") == 7
for text in ("", " ", "d", "5", "2w", "1h, 2m", "2 d x"):
    try:
        parse_duration(text)
    except ValueError:
        continue
    raise AssertionError(text)
assert format_duration(0) == "0s"
assert format_duration(172_800) == "48h"
assert format_duration(3661) == "1h1m1s"
