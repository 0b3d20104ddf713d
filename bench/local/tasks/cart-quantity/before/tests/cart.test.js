const test = require('node:test')
const assert = require('node:assert')
const { Cart } = require('../src/cart.js')

test('counts and sums', () => {
  const cart = new Cart().addItem('tea', 350, 2).addItem('tea', 350).addItem('cup', 900)
  assert.strictEqual(cart.count, 4)
  assert.strictEqual(cart.total, 1950)
})

test('refuses a quantity below 1', () => {
  assert.throws(() => new Cart().addItem('tea', 350, 0), RangeError)
  assert.throws(() => new Cart().addItem('tea', 350, -2), RangeError)
})

test('removes', () => {
  assert.strictEqual(new Cart().addItem('tea', 350).removeItem('tea').count, 0)
})
