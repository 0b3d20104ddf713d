import assert from 'node:assert'
import { createRequire } from 'node:module'
import path from 'node:path'

const require = createRequire(path.join(process.cwd(), 'judge.js'))
const { Cart } = require('./src/cart.js')

for (const quantity of [0, -1, -7, 0.5]) {
  const cart = new Cart().addItem('cup', 900)
  assert.throws(() => cart.addItem('tea', 350, quantity), RangeError)
  assert.throws(() => cart.addItem('cup', 900, quantity), RangeError)
  assert.strictEqual(cart.count, 1)
  assert.strictEqual(cart.total, 900)
}
const cart = new Cart().addItem('tea', 350).addItem('tea', 350, 2).addItem('cup', 900, 1)
assert.strictEqual(cart.count, 4)
assert.strictEqual(cart.total, 1950)
assert.strictEqual(cart.lines.size, 2)
