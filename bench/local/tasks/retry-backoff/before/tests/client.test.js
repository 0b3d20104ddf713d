import test from 'node:test';
import assert from 'node:assert';
import { withRetry, poll } from '../src/client.js';

function clock() {
  const waits = [];
  return { waits, sleep: async ms => { waits.push(ms); } };
}

test('waits twice as long each time', async () => {
  const { waits, sleep } = clock();
  const action = async () => { throw new Error('down'); };
  await assert.rejects(withRetry(action, { tries: 4, delay: 50, sleep }), /down/);
  assert.deepStrictEqual(waits, [50, 100, 200]);
});

test('stops when it works', async () => {
  const { waits, sleep } = clock();
  const action = async attempt => { if (attempt < 2) throw new Error('down'); return 'up'; };
  assert.strictEqual(await withRetry(action, { sleep }), 'up');
  assert.deepStrictEqual(waits, [100]);
});

test('poll keeps its pace', async () => {
  const { waits, sleep } = clock();
  await poll(async () => undefined, { tries: 4, delay: 10, sleep });
  assert.deepStrictEqual(waits, [10, 10, 10]);
});
