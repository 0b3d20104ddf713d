import assert from 'node:assert'
import { createRequire } from 'node:module'
import path from 'node:path'

const require = createRequire(path.join(process.cwd(), 'judge.js'))
const all = require('./src/collections.js')
const words = ['ant', 'bee', 'cat', 'horse', 'tiger', 'it']

for (const key of ['length', word => word.length]) {
  const groups = all.groupBy(new Set(words), key)
  assert.ok(groups instanceof Map)
  assert.deepEqual([...groups], [[3, ['ant', 'bee', 'cat']], [5, ['horse', 'tiger']], [2, ['it']]])
}
assert.deepEqual([...all.groupBy([], 'x')], [])
assert.deepEqual([...all.groupBy([{ y: 1 }], 'x')], [[undefined, [{ y: 1 }]]])
assert.throws(() => all.countBy(words, 'length'))
assert.deepEqual([...all.countBy(words, word => word.length)], [[3, 3], [5, 2], [2, 1]])
assert.deepEqual(all.sortBy(words, 'length'), ['it', 'ant', 'bee', 'cat', 'horse', 'tiger'])
assert.equal(Object.keys(all).length, 19)
