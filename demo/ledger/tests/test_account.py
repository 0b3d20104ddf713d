import unittest

from src.account import Account, InsufficientFunds, transfer


class Amounts(unittest.TestCase):
    def setUp(self):
        self.ann = Account("Ann", 500)
        self.bob = Account("Bob")

    def test_transfer_moves_the_money(self):
        transfer(self.ann, self.bob, 200)
        self.assertEqual((self.ann.balance, self.bob.balance), (300, 200))

    def test_an_account_does_not_go_below_zero(self):
        with self.assertRaises(InsufficientFunds):
            self.ann.withdraw(501)

    def test_a_negative_deposit_is_rejected(self):
        with self.assertRaises(ValueError):
            self.ann.deposit(-1)
        self.assertEqual(self.ann.balance, 500)
        self.assertEqual(self.ann.entries, [])

    def test_a_negative_withdrawal_is_rejected(self):
        with self.assertRaises(ValueError):
            self.ann.withdraw(-1)
        self.assertEqual(self.ann.balance, 500)


if __name__ == "__main__":
    unittest.main()
