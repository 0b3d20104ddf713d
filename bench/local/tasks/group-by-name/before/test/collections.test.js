const test = require('node:test')
const assert = require('node:assert')
const { groupBy, countBy, sortBy, mapValues } = require('../src/collections.js')

const people = [
  { name: 'Ann', town: 'Oslo' },
  { name: 'Bob', town: 'Rome' },
  { name: 'Cid', town: 'Oslo' }
]
const names = group => group.map(person => person.name).join(' ')

test('groupBy takes a function', () => {
  const groups = mapValues(groupBy(people, person => person.town), names)
  assert.deepStrictEqual([...groups], [['Oslo', 'Ann Cid'], ['Rome', 'Bob']])
})

test('groupBy takes the name of a property', () => {
  const groups = mapValues(groupBy(people, 'town'), names)
  assert.deepStrictEqual([...groups], [['Oslo', 'Ann Cid'], ['Rome', 'Bob']])
})

test('the others are as they were', () => {
  assert.deepStrictEqual([...countBy(people, person => person.town)], [['Oslo', 2], ['Rome', 1]])
  assert.strictEqual(names(sortBy(people, 'town', { descending: true })), 'Bob Ann Cid')
})
