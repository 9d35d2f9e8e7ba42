// Exercises ioredis as an application uses it. Prints a line `pass NAME` or `fail NAME why` for each test.
'use strict';
const assert = require('assert');
const Redis = require('ioredis');
const trial = require('./trial.js');

const redis = new Redis(6379, '127.0.0.1', {maxRetriesPerRequest: 1});

trial.run({
  async ready_and_ping() {
    assert.strictEqual(await redis.ping(), 'PONG');
    assert.ok((await redis.info()).includes('redis_version'));
  },
  async strings() {
    assert.strictEqual(await redis.get('missing'), null);
    assert.strictEqual(await redis.set('s', 'v'), 'OK');
    assert.strictEqual(await redis.get('s'), 'v');
    assert.strictEqual(await redis.set('s', 'w', 'NX'), null);
    assert.strictEqual(await redis.getset('s', 'x'), 'v');
    assert.strictEqual(await redis.append('s', 'yz'), 3);
    assert.strictEqual(await redis.getrange('s', 1, 2), 'yz');
    assert.strictEqual(await redis.strlen('s'), 3);
  },
  async binary_values() {
    const bytes = Buffer.from(Array.from({length: 256}, (_, i) => i));
    await redis.set(Buffer.from([0, 13, 10, 255]), bytes);
    assert.deepStrictEqual(await redis.getBuffer(Buffer.from([0, 13, 10, 255])), bytes);
  },
  async a_large_value() {
    const value = 'x'.repeat(900000);
    await redis.set('large', value);
    assert.strictEqual(await redis.get('large'), value);
  },
  async numbers() {
    await redis.del('n', 'f');
    assert.strictEqual(await redis.incr('n'), 1);
    assert.strictEqual(await redis.incrby('n', 41), 42);
    assert.strictEqual(await redis.decr('n'), 41);
    assert.strictEqual(await redis.incrbyfloat('f', 0.5), '0.5');
    await redis.set('s', 'word');
    await assert.rejects(redis.incr('s'), /ERR value is not an integer or out of range/);
  },
  async several_keys() {
    await redis.mset('a', 1, 'b', 2);
    await redis.mset({c: 3});
    assert.deepStrictEqual(await redis.mget('a', 'missing', 'c'), ['1', null, '3']);
    assert.strictEqual(await redis.exists('a', 'b', 'missing'), 2);
    assert.strictEqual(await redis.del('a', 'b', 'c'), 3);
  },
  async ends() {
    await redis.set('e', 'v', 'EX', 100);
    const left = await redis.ttl('e');
    assert.ok(left > 90 && left <= 100, String(left));
    assert.strictEqual(await redis.persist('e'), 1);
    assert.strictEqual(await redis.ttl('e'), -1);
    await redis.set('e', 'v', 'PX', 30);
    await new Promise((done) => setTimeout(done, 200));
    assert.strictEqual(await redis.get('e'), null);
  },
  async hashes() {
    await redis.del('h');
    assert.strictEqual(await redis.hset('h', {name: 'mill', pond: '1'}), 2);
    assert.deepStrictEqual(await redis.hgetall('h'), {name: 'mill', pond: '1'});
    assert.deepStrictEqual(await redis.hmget('h', 'pond', 'missing'), ['1', null]);
    assert.strictEqual(await redis.hincrby('h', 'pond', 4), 5);
    assert.strictEqual(await redis.hdel('h', 'name', 'pond'), 2);
    assert.strictEqual(await redis.exists('h'), 0);
  },
  async lists() {
    await redis.del('l');
    assert.strictEqual(await redis.rpush('l', 'a', 'b', 'c'), 3);
    assert.strictEqual(await redis.lpush('l', 'z'), 4);
    assert.deepStrictEqual(await redis.lrange('l', 0, -1), ['z', 'a', 'b', 'c']);
    assert.strictEqual(await redis.lpop('l'), 'z');
    assert.strictEqual(await redis.rpop('l'), 'c');
    assert.strictEqual(await redis.llen('l'), 2);
  },
  async sets() {
    await redis.del('t', 'u');
    assert.strictEqual(await redis.sadd('t', 'a', 'b', 'b'), 2);
    await redis.sadd('u', 'b', 'c');
    assert.deepStrictEqual((await redis.smembers('t')).sort(), ['a', 'b']);
    assert.deepStrictEqual(await redis.sinter('t', 'u'), ['b']);
    assert.strictEqual(await redis.sismember('t', 'c'), 0);
    assert.strictEqual(await redis.srem('t', 'a'), 1);
  },
  async sorted_sets() {
    await redis.del('z');
    assert.strictEqual(await redis.zadd('z', 2, 'two', 1, 'one', 3, 'three'), 3);
    assert.deepStrictEqual(await redis.zrange('z', 0, -1, 'WITHSCORES'), ['one', '1', 'two', '2', 'three', '3']);
    assert.strictEqual(await redis.zincrby('z', 5, 'one'), '6');
    assert.strictEqual(await redis.zrank('z', 'one'), 2);
    assert.deepStrictEqual(await redis.zrangebyscore('z', 2, 3), ['two', 'three']);
  },
  async pipelines() {
    const replies = await redis.pipeline().set('p', 1).incr('p').incr('s').get('p').exec();
    assert.deepStrictEqual(replies.map(([error, reply]) => (error ? 'error' : reply)), ['OK', 2, 'error', '2']);
    const many = redis.pipeline();
    for (let i = 0; i < 5000; i++) many.set(`m${i}`, i).get(`m${i}`);
    assert.strictEqual((await many.exec())[9999][1], '4999');
  },
  async transactions() {
    const replies = await redis.multi().set('t1', 'a').get('t1').exec();
    assert.deepStrictEqual(replies, [[null, 'OK'], [null, 'a']]);
    const other = redis.duplicate();
    await other.watch('t1');
    await redis.set('t1', 'b');
    assert.strictEqual(await other.multi().set('t1', 'c').exec(), null);
    await other.quit();
    assert.strictEqual(await redis.get('t1'), 'b');
  },
  async scans() {
    await Promise.all(Array.from({length: 500}, (_, i) => redis.set(`scan:${i}`, i)));
    const found = new Set();
    for await (const keys of redis.scanStream({match: 'scan:*', count: 50})) keys.forEach((key) => found.add(key));
    assert.strictEqual(found.size, 500);
  },
  async errors() {
    await assert.rejects(redis.call('NOSUCH', 'a'), /ERR unknown command 'NOSUCH'/);
    await redis.set('s', 'v');
    await assert.rejects(redis.lpush('s', 'v'), /WRONGTYPE/);
  },
  async reconnecting() {
    const other = redis.duplicate();
    await other.set('r', '1');
    other.disconnect(true);
    assert.strictEqual(await other.get('r'), '1');
    await other.quit();
  },
});
