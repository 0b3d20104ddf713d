'use strict'

/*
 * Helpers for arrays, maps and sets. Nothing here changes what it is given; everything takes any iterable.
 *
 *   chunk, window, zip, unique, groupBy, countBy, sortBy, partition, indexBy, range, sum, minBy, maxBy, spread,
 *   union, intersection, difference, mapValues, invert
 */

/** [1, 2, 3, 4, 5] by 2 -> [[1, 2], [3, 4], [5]] */
function chunk (items, size) {
  if (!(size >= 1)) throw new RangeError(`chunk: size must be at least 1, not ${size}`)
  const found = []
  let last = []
  for (const item of items) {
    if (last.length === size) last = []
    if (last.length === 0) found.push(last)
    last.push(item)
  }
  return found
}

/** All neighbouring runs of `size` items: [1, 2, 3] by 2 -> [[1, 2], [2, 3]] */
function window (items, size) {
  if (!(size >= 1)) throw new RangeError(`window: size must be at least 1, not ${size}`)
  const all = [...items]
  const found = []
  for (let at = 0; at + size <= all.length; at++) found.push(all.slice(at, at + size))
  return found
}

/** As long as the shortest. */
function zip (...iterables) {
  if (iterables.length === 0) return []
  const all = iterables.map(items => [...items])
  const length = Math.min(...all.map(items => items.length))
  return Array.from({ length }, (_, at) => all.map(items => items[at]))
}

/** The first of those that are the same, in their order. */
function unique (items, key = item => item) {
  const seen = new Set()
  const found = []
  for (const item of items) {
    const what = key(item)
    if (seen.has(what)) continue
    seen.add(what)
    found.push(item)
  }
  return found
}

/**
 * Items by what `key` returns for them, or by the property of this name, in a Map; the order of the items and of the first of each group stays.
 */
function groupBy (items, key) {
  const of = typeof key === 'string' ? item => item[key] : key
  const groups = new Map()
  for (const item of items) {
    const name = of(item)
    const group = groups.get(name)
    if (group) group.push(item)
    else groups.set(name, [item])
  }
  return groups
}

/**
 * How many items there are of each `key`, in a Map.
 */
function countBy (items, key) {
  const counts = new Map()
  for (const item of items) {
    const name = key(item)
    counts.set(name, (counts.get(name) || 0) + 1)
  }
  return counts
}

/**
 * Sorted by what `key` returns, a number or a string, or by the property of this name. Equal ones keep their order.
 */
function sortBy (items, key, { descending = false } = {}) {
  const of = typeof key === 'string' ? item => item[key] : key
  const sign = descending ? -1 : 1
  return [...items].sort((a, b) => {
    const x = of(a)
    const y = of(b)
    return x < y ? -sign : x > y ? sign : 0
  })
}

/** [those for which `test` is true, the others] */
function partition (items, test) {
  const yes = []
  const no = []
  for (const item of items) (test(item) ? yes : no).push(item)
  return [yes, no]
}

/**
 * A Map from `key` to the item. Two items of one key are an error: use groupBy when there may be more.
 */
function indexBy (items, key) {
  const found = new Map()
  for (const item of items) {
    const name = key(item)
    if (found.has(name)) throw new Error(`indexBy: there are two of ${String(name)}`)
    found.set(name, item)
  }
  return found
}

/** range(3) -> 0 1 2; range(2, 5) -> 2 3 4; range(5, 2, -1) -> 5 4 3 */
function * range (from, to, step = 1) {
  if (to === undefined) [from, to] = [0, from]
  if (step === 0) throw new RangeError('range: step must not be 0')
  for (let at = from; step > 0 ? at < to : at > to; at += step) yield at
}

function sum (items, value = item => item) {
  let all = 0
  for (const item of items) all += value(item)
  return all
}

/** The item with the smallest `key`, the first of them; undefined when there is none. */
function minBy (items, key) {
  let best, least
  let any = false
  for (const item of items) {
    const value = key(item)
    if (!any || value < least) {
      best = item
      least = value
      any = true
    }
  }
  return best
}

/** How much the values of `key` differ at most; 0 for less than two items. */
function spread (items, key) {
  const all = [...items].map(key)
  if (all.length < 2) return 0
  return Math.max(...all) - Math.min(...all)
}

/** The item with the largest `key`, the first of them; undefined when there is none. */
function maxBy (items, key) {
  let best, most
  let any = false
  for (const item of items) {
    const value = key(item)
    if (!any || value > most) {
      best = item
      most = value
      any = true
    }
  }
  return best
}

// ---------------------------------------------------------------------------
// sets
// ---------------------------------------------------------------------------

const union        = (...sets) => new Set(sets.flatMap(set => [...set]))
const intersection = (a, b)    => new Set([...a].filter(item => new Set(b).has(item)))
const difference   = (a, b)    => new Set([...a].filter(item => !new Set(b).has(item)))

// ---------------------------------------------------------------------------
// maps
// ---------------------------------------------------------------------------

/** The same keys, other values. */
function mapValues (map, change) {
  const found = new Map()
  for (const [key, value] of map) found.set(key, change(value, key))
  return found
}

/** Keys become values. Of two equal values the last one stays. */
function invert (map) {
  const found = new Map()
  for (const [key, value] of map) found.set(value, key)
  return found
}

module.exports = {
  chunk,
  window,
  zip,
  unique,
  groupBy,
  countBy,
  sortBy,
  partition,
  indexBy,
  range,
  sum,
  minBy,
  maxBy,
  spread,
  union,
  intersection,
  difference,
  mapValues,
  invert
}
