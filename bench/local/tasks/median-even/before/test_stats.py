import unittest

import stats


class Stats(unittest.TestCase):
    def test_mean(self):
        self.assertEqual(stats.mean([1, 2, 6]), 3)

    def test_median_odd(self):
        self.assertEqual(stats.median([9, 1, 5]), 5)

    def test_median_even(self):
        self.assertEqual(stats.median([4, 1, 3, 2]), 2.5)

    def test_quartile(self):
        self.assertEqual(stats.quartile([4, 1, 3, 2]), 2)
