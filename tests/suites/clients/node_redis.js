// Exercises node-redis, which begins with HELLO 3 and leaves large numbers and maps to RESP3. Prints a line `pass NAME` or `fail NAME why` for
// each test.
'use strict';
const assert = require('assert');
const {createClient} = require('redis');
const trial = require('./trial.js');

const options = {url: 'redis://127.0.0.1:6379', RESP: 3, socket: {reconnectStrategy: false}};
const client = createClient(options);
client.on('error', (error) => console.error(error));

trial.run({
  async connect_and_ping() {
    await client.connect();
    assert.strictEqual(await client.ping(), 'PONG');
  },
  async strings() {
    assert.strictEqual(await client.get('missing'), null);
    assert.strictEqual(await client.set('s', 'v', {expiration: {type: 'EX', value: 100}}), 'OK');
    assert.strictEqual(await client.get('s'), 'v');
    assert.strictEqual(await client.set('s', 'w', {condition: 'NX'}), null);
    assert.strictEqual(await client.getDel('s'), 'v');
    await client.set('n', 10);
    assert.strictEqual(await client.incrBy('n', 5), 15);
    assert.deepStrictEqual(await client.mGet(['n', 'missing']), ['15', null]);
  },
  async hashes() {
    await client.del('h');
    assert.strictEqual(await client.hSet('h', {a: '1', b: '2'}), 2);
    assert.deepStrictEqual({...await client.hGetAll('h')}, {a: '1', b: '2'});
    assert.strictEqual(await client.hIncrBy('h', 'a', 2), 3);
  },
  async lists() {
    await client.del('l');
    await client.rPush('l', ['a', 'b', 'c']);
    assert.deepStrictEqual(await client.lRange('l', 0, -1), ['a', 'b', 'c']);
    assert.strictEqual(await client.lPop('l'), 'a');
  },
  async sets() {
    await client.del('t');
    await client.sAdd('t', ['a', 'b']);
    assert.deepStrictEqual([...await client.sMembers('t')].sort(), ['a', 'b']);
  },
  async sorted_sets() {
    await client.del('z');
    await client.zAdd('z', [{score: 1.5, value: 'a'}, {score: 1, value: 'b'}]);
    assert.deepStrictEqual((await client.zRangeWithScores('z', 0, -1)).map(({value, score}) => [value, score]), [['b', 1], ['a', 1.5]]);
    assert.strictEqual(await client.zScore('z', 'a'), 1.5);
  },
  async transactions() {
    assert.deepStrictEqual(await client.multi().set('m', '1').incr('m').exec(), ['OK', 2]);
  },
  async at_once() {
    const replies = await Promise.all(Array.from({length: 2000}, (_, i) => client.set(`k${i}`, i).then(() => client.get(`k${i}`))));
    assert.strictEqual(replies[1999], '1999');
  },
  async scan() {
    let count = 0;
    for await (const keys of client.scanIterator({MATCH: 'k1*'})) count += keys.length;
    assert.ok(count >= 1111, String(count));
  },
  async errors() {
    await assert.rejects(client.sendCommand(['NOSUCH']), /unknown command/);
  },
  async named() {
    await client.sendCommand(['CLIENT', 'SETNAME', 'trial']);
    assert.ok(String(await client.sendCommand(['CLIENT', 'LIST'])).includes('name=trial'));
  },
});
