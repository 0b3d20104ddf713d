import assert from 'node:assert'
import { createRequire } from 'node:module'
import path from 'node:path'

const require = createRequire(path.join(process.cwd(), 'judge.js'))
const { parseQuery, formatQuery } = require('./lib/query.js')

assert.deepEqual(parseQuery(''), {})
assert.deepEqual(parseQuery('?a=1&b=x+y&c'), { a: '1', b: 'x y', c: '' })
assert.deepEqual(parseQuery('t=a&t=b'), { t: ['a', 'b'] })
assert.deepEqual(parseQuery('t=a&u=1&t=b&t=a&v=%26'), { t: ['a', 'b', 'a'], u: '1', v: '&' })
assert.deepEqual(parseQuery('t=&t='), { t: ['', ''] })
assert.equal(formatQuery(parseQuery('b=2&b=3&a=1')), 'b=2&b=3&a=1')
