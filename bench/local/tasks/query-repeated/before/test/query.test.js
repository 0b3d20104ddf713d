const test = require('node:test')
const assert = require('node:assert')
const { parseQuery, formatQuery } = require('../lib/query.js')

test('single values', () => {
  assert.deepStrictEqual(parseQuery('?a=1&b=x+y'), { a: '1', b: 'x y' })
})

test('a repeated key becomes an array', () => {
  assert.deepStrictEqual(parseQuery('tag=a&tag=b&page=2'), { tag: ['a', 'b'], page: '2' })
  assert.deepStrictEqual(parseQuery('tag=a&tag=b&tag=c'), { tag: ['a', 'b', 'c'] })
})

test('format', () => {
  assert.strictEqual(formatQuery({ a: '1', b: ['2', '3'] }), 'a=1&b=2&b=3')
})
