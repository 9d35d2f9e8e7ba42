// Exercises memjs, which speaks nothing but the binary protocol. Prints a line `pass NAME` or `fail NAME why` for each test.
'use strict';
const assert = require('assert');
const memjs = require('memjs');
const trial = require('./trial.js');

const client = memjs.Client.create('127.0.0.1:11211', {timeout: 1.5, conntimeout: 1.5, retries: 0, retry_delay: 0.1});

const tests = {
  async miss() {
    assert.strictEqual((await client.get('missing')).value, null);
  },
  async set_and_get() {
    assert.strictEqual(await client.set('k', 'value', {expires: 100}), true);
    assert.strictEqual(String((await client.get('k')).value), 'value');
  },
  async add_and_replace() {
    await client.delete('a');
    assert.strictEqual(await client.replace('a', '1', {}), false);
    assert.strictEqual(await client.add('a', '2', {}), true);
    assert.strictEqual(await client.add('a', '3', {}), false);
    assert.strictEqual(await client.replace('a', '4', {}), true);
    assert.strictEqual(String((await client.get('a')).value), '4');
  },
  async append() {
    // Its prepend sends the code of append.
    await client.set('p', 'b', {});
    assert.strictEqual(await client.append('p', 'c'), true);
    assert.strictEqual(String((await client.get('p')).value), 'bc');
  },
  async counters() {
    await client.delete('n');
    assert.strictEqual((await client.increment('n', 5, {initial: 10})).value, 10);
    assert.strictEqual((await client.increment('n', 5, {initial: 10})).value, 15);
    assert.strictEqual((await client.decrement('n', 3, {initial: 0})).value, 12);
  },
  async touch_and_delete() {
    await client.set('t', 'v', {expires: 100});
    assert.strictEqual(await client.touch('t', 200), true);
    assert.strictEqual(await client.delete('t'), true);
    assert.strictEqual(await client.delete('t'), false);
  },
  async expiry() {
    await client.set('e', 'v', {expires: 1});
    await new Promise((done) => setTimeout(done, 2100));
    assert.strictEqual((await client.get('e')).value, null);
  },
  async large_value() {
    const value = Buffer.alloc(900000, 'x');
    await client.set('l', value, {});
    assert.ok((await client.get('l')).value.equals(value));
  },
  async many_at_once() {
    await Promise.all(Array.from({length: 200}, (_, i) => client.set('m' + i, String(i), {})));
    const found = await Promise.all(Array.from({length: 200}, (_, i) => client.get('m' + i)));
    found.forEach((item, i) => assert.strictEqual(String(item.value), String(i)));
  },
  async flush() {
    await client.set('f', 'v', {});
    await new Promise((done) => client.flush(done));
    assert.strictEqual((await client.get('f')).value, null);
  },
  async stats() {
    const stats = await new Promise((done, failed) => client.stats((error, server, all) => (error ? failed(error) : done(all))));
    assert.ok(Number(stats.curr_connections) >= 1);
  },
};

trial.run(tests);
