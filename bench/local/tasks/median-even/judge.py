import stats

assert stats.median([4, 1, 3, 2]) == 2.5
assert stats.median([1, 2]) == 1.5
assert stats.median([7]) == 7
assert stats.median([9, 1, 5]) == 5
assert stats.median([10, 2, 8, 4, 6, 0]) == 5
values = [3, 1, 2]
stats.median(values)
assert values == [3, 1, 2]
assert stats.quartile([4, 1, 3, 2]) == 2
assert stats.spread([4, 1, 3]) == 3
