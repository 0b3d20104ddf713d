import assert from 'node:assert'
import path from 'node:path'
import { pathToFileURL } from 'node:url'

const { withRetry, poll, ServiceError, Weather } = await import(pathToFileURL(path.resolve('src/client.js')))
let waits = []
const sleep = async ms => { waits.push(ms) }
const down = async () => { throw new Error('down') }

await assert.rejects(withRetry(down, { tries: 5, delay: 10, sleep }), /down/)
assert.deepEqual(waits, [10, 20, 40, 80])
waits = []
await assert.rejects(withRetry(down, { sleep }), /down/)
assert.deepEqual(waits, [100, 200])
waits = []
await assert.rejects(withRetry(down, { tries: 1, sleep }), /down/)
assert.deepEqual(waits, [])
await assert.rejects(withRetry(async () => { throw new ServiceError(404, 'none') }, { sleep }), /none/)
assert.deepEqual(waits, [])
const seen = []
await withRetry(async n => { seen.push(n); if (n < 3) throw new ServiceError(503, 'busy') }, { sleep, delay: 7 })
assert.deepEqual(seen, [1, 2, 3])
assert.deepEqual(waits, [7, 14])
waits = []
await poll(async () => undefined, { tries: 3, delay: 5, sleep })
assert.deepEqual(waits, [5, 5])
waits = []
const fetch = async () => ({ ok: false, status: 500 })
for (let n = 0; n < 2; n++) {
  waits = []
  await assert.rejects(new Weather({ base: 'http://w/', key: 'k', fetch, sleep }).now('x'), /500/)
  assert.deepEqual(waits, [100, 200])
}
