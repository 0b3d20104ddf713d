// A small client for the weather service. The functions `fetch` and `sleep` are handed in, so that tests need neither.

export class ServiceError extends Error {
  constructor(status, message) {
    super(message);
    this.name = 'ServiceError';
    this.status = status;
  }

  get passing() { return this.status === 429 || this.status >= 500; }
}

const wait = ms => new Promise(done => setTimeout(done, ms));

/**
 * Call `action` until it works, at most `tries` times.
 * What is thrown last goes to the caller.
 */
export async function withRetry(action, { tries = 3, delay = 100, sleep = wait } = {}) {
  for (let attempt = 1; ; attempt++) {
    try {
      return await action(attempt);
    } catch (error) {
      // what the server said for good is not tried again
      if (attempt >= tries || error.passing === false) throw error;
      await sleep(delay);
    }
  }
}

/**
 * Call `action` again and again until it returns something that is not undefined.
 * Returns undefined when that never happens.
 */
export async function poll(action, { tries = 10, delay = 1000, sleep = wait } = {}) {
  for (let attempt = 1; attempt <= tries; attempt++) {
    const found = await action(attempt);
    if (found !== undefined) return found;
    if (attempt < tries) await sleep(delay);
  }
  return undefined;
}

export class Weather {
  constructor({ base, key, fetch = globalThis.fetch, sleep = wait }) {
    this.base = base.replace(/\/+$/, '');
    this.key = key;
    this.fetch = fetch;
    this.sleep = sleep;
  }

  async get(path, query = {}) {
    const url = new URL(this.base + path);
    for (const [name, value] of Object.entries(query)) {
      if (value !== undefined) url.searchParams.set(name, value);
    }
    return withRetry(async () => {
      const response = await this.fetch(url, { headers: { 'x-key': this.key } });
      if (!response.ok) throw new ServiceError(response.status, `${path}: ${response.status}`);
      return response.json();
    }, { sleep: this.sleep });
  }

  now(place) {
    return this.get('/now', { place });
  }

  forecast(place, { days = 3, units } = {}) {
    return this.get('/forecast', { place, days, units });
  }

  /** A report takes the service some time: it is asked until it is there. */
  report(place) {
    return poll(async () => {
      const { state, text } = await this.get('/report', { place });
      return state === 'ready' ? text : undefined;
    }, { sleep: this.sleep });
  }
}

export function celsius(fahrenheit) {
  return Math.round((fahrenheit - 32) / 1.8 * 10) / 10
}

export const describe = ({ place, degrees, sky = 'unknown' }) =>
  `${place}: ${degrees} °C, ${sky}`;
