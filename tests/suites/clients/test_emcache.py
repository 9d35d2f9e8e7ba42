"""Exercises emcache, a client of the classic text commands with pipelining of its own: every command it has, on one server."""

import asyncio
import functools
import time

import emcache
import pytest

HOST = emcache.MemcachedHostAddress("127.0.0.1", 11211)


def with_client(**options):
    """Runs a coroutine test with an empty server and a client made with `options`."""

    def decorate(test):
        @functools.wraps(test)
        def run():
            async def body():
                client = await emcache.create_client([HOST], timeout=5.0, **options)
                await client.flush_all(HOST)
                try:
                    await test(client)
                finally:
                    await client.close()

            asyncio.run(body())

        # pytest would take the parameter of the wrapped test for a fixture.
        del run.__wrapped__
        return run

    return decorate


@with_client()
async def test_miss(client):
    assert await client.get(b"k") is None
    assert await client.gets(b"k") is None
    assert await client.get_many([b"a", b"b"]) == {}


@with_client()
async def test_set_and_get(client):
    await client.set(b"k", b"value", flags=65535)
    item = await client.get(b"k", return_flags=True)
    assert (item.value, item.flags, item.cas) == (b"value", 65535, None)


@with_client()
async def test_empty_value(client):
    await client.set(b"k", b"")
    assert (await client.get(b"k")).value == b""


@with_client()
async def test_value_holding_line_ends(client):
    value = b"\r\nEND\r\nVALUE k 0 1\r\n\x00\xff"
    await client.set(b"k", value)
    assert (await client.get(b"k")).value == value


@pytest.mark.parametrize("size", [1, 1023, 4096, 65_536, 1_000_000])
def test_sizes(size):
    @with_client()
    async def body(client):
        value = bytes(i % 251 for i in range(size))
        await client.set(b"k", value)
        assert (await client.get(b"k")).value == value

    body()


@with_client()
async def test_too_large(client):
    with pytest.raises(emcache.StorageCommandError, match="too large"):
        await client.set(b"k", bytes(2 << 20))
    # The connection is where it should be.
    await client.set(b"k", b"v")
    assert (await client.get(b"k")).value == b"v"


@with_client()
async def test_longest_key(client):
    key = b"k" * 250
    await client.set(key, b"v")
    assert (await client.get(key)).value == b"v"


@with_client()
async def test_add_and_replace(client):
    with pytest.raises(emcache.NotStoredStorageCommandError):
        await client.replace(b"k", b"1")
    await client.add(b"k", b"2")
    with pytest.raises(emcache.NotStoredStorageCommandError):
        await client.add(b"k", b"3")
    await client.replace(b"k", b"4", flags=7)
    item = await client.get(b"k", return_flags=True)
    assert (item.value, item.flags) == (b"4", 7)


@with_client()
async def test_append_and_prepend(client):
    with pytest.raises(emcache.NotStoredStorageCommandError):
        await client.append(b"k", b"x")
    with pytest.raises(emcache.NotStoredStorageCommandError):
        await client.prepend(b"k", b"x")
    await client.set(b"k", b"b", flags=3)
    await client.append(b"k", b"c")
    await client.prepend(b"k", b"a")
    item = await client.get(b"k", return_flags=True)
    assert (item.value, item.flags) == (b"abc", 3)


@with_client()
async def test_cas(client):
    await client.set(b"k", b"1")
    token = (await client.gets(b"k")).cas
    assert (await client.gets(b"k")).cas == token
    await client.cas(b"k", b"2", token)
    with pytest.raises(emcache.StorageCommandError):
        await client.cas(b"k", b"3", token)
    with pytest.raises(emcache.StorageCommandError):
        await client.cas(b"other", b"3", token)
    assert (await client.get(b"k")).value == b"2"


@with_client()
async def test_increment_and_decrement(client):
    with pytest.raises(emcache.NotFoundCommandError):
        await client.increment(b"n", 1)
    with pytest.raises(emcache.NotFoundCommandError):
        await client.decrement(b"n", 1)
    await client.set(b"n", b"10")
    assert await client.increment(b"n", 5) == 15
    assert await client.decrement(b"n", 6) == 9
    assert await client.decrement(b"n", 100) == 0
    await client.set(b"n", b"18446744073709551615")
    assert await client.increment(b"n", 2) == 1


@with_client()
async def test_decrement_pads(client):
    await client.set(b"n", b"10")
    assert await client.decrement(b"n", 1) == 9
    assert (await client.get(b"n")).value == b"9 "


@with_client()
async def test_touch(client):
    with pytest.raises(emcache.NotFoundCommandError):
        await client.touch(b"k", 10)
    await client.set(b"k", b"v", exptime=1000)
    await client.touch(b"k", -1)
    assert await client.get(b"k") is None


@with_client()
async def test_delete(client):
    with pytest.raises(emcache.NotFoundCommandError):
        await client.delete(b"k")
    await client.set(b"k", b"v")
    await client.delete(b"k")
    assert await client.get(b"k") is None


@with_client()
async def test_expiry(client):
    await client.set(b"relative", b"v", exptime=1)
    await client.set(b"absolute", b"v", exptime=int(time.time()) + 1)
    await client.set(b"past", b"v", exptime=-1)
    await client.set(b"long_past", b"v", exptime=int(time.time()) - 3600)
    await client.set(b"stays", b"v", exptime=100)
    assert await client.get(b"past") is None
    assert await client.get(b"long_past") is None
    await asyncio.sleep(3)
    assert await client.get(b"relative") is None
    assert await client.get(b"absolute") is None
    assert (await client.get(b"stays")).value == b"v"


@with_client()
async def test_get_and_touch(client):
    await client.set(b"k", b"v", flags=5, exptime=1000)
    item = await client.gat(2000, b"k", return_flags=True)
    assert (item.value, item.flags, item.cas) == (b"v", 5, None)
    assert (await client.gats(2000, b"k")).cas is not None
    assert await client.gat(0, b"missing") is None
    await client.gat(-1, b"k")
    assert await client.get(b"k") is None


@with_client()
async def test_many(client):
    keys = [b"key:%d" % i for i in range(200)]
    for i, key in enumerate(keys):
        await client.set(key, b"value:%d" % i)
    found = await client.get_many(keys + [b"missing"])
    assert {key: item.value for key, item in found.items()} == {key: b"value:%d" % i for i, key in enumerate(keys)}
    tokens = await client.gets_many(keys)
    assert len({item.cas for item in tokens.values()}) == len(keys)
    assert len(await client.gat_many(100, keys)) == len(keys)
    assert len(await client.gats_many(100, keys)) == len(keys)


@with_client(autobatching=True)
async def test_batches(client):
    await asyncio.gather(*(client.set(b"key:%d" % i, b"value:%d" % i) for i in range(500)))
    items = await asyncio.gather(*(client.get(b"key:%d" % i) for i in range(500)))
    assert [item.value for item in items] == [b"value:%d" % i for i in range(500)]


@with_client(max_connections=8)
async def test_concurrent_increments(client):
    await client.set(b"n", b"0")
    await asyncio.gather(*(client.increment(b"n", 1) for _ in range(1000)))
    assert (await client.get(b"n")).value == b"1000"


@with_client(max_connections=1)
async def test_noreply(client):
    await client.set(b"k", b"b", noreply=True)
    await client.add(b"k", b"x", noreply=True)
    await client.append(b"k", b"c", noreply=True)
    await client.prepend(b"k", b"a", noreply=True)
    await client.touch(b"k", 100, noreply=True)
    assert (await client.get(b"k")).value == b"abc"
    await client.replace(b"k", b"1", noreply=True)
    await client.increment(b"k", 4, noreply=True)
    await client.decrement(b"k", 2, noreply=True)
    token = (await client.gets(b"k")).cas
    await client.cas(b"k", b"9", token, noreply=True)
    assert (await client.get(b"k")).value == b"9"
    await client.delete(b"k", noreply=True)
    assert await client.get(b"k") is None
    await client.verbosity(HOST, 1, noreply=True)
    await client.flush_all(HOST, noreply=True)
    assert await client.get(b"k") is None


@with_client()
async def test_flush_all(client):
    await client.set(b"k", b"v")
    await client.flush_all(HOST, delay=100)
    assert (await client.get(b"k")).value == b"v"
    await client.flush_all(HOST)
    assert await client.get(b"k") is None
    await client.set(b"k", b"w")
    assert (await client.get(b"k")).value == b"w"


@with_client()
async def test_delayed_flush(client):
    await client.set(b"k", b"v")
    await client.flush_all(HOST, delay=2)
    await asyncio.sleep(4)
    assert await client.get(b"k") is None


@with_client()
async def test_version(client):
    assert (await client.version(HOST))[0].isdigit()


@with_client()
async def test_stats(client):
    await client.set(b"k", b"v")
    await client.get(b"k")
    await client.get(b"missing")
    stats = await client.stats(HOST)
    names = (
        "pid uptime time version pointer_size rusage_user rusage_system max_connections curr_connections total_connections "
        "cmd_get cmd_set cmd_flush cmd_touch get_hits get_misses delete_misses delete_hits incr_misses incr_hits decr_misses "
        "decr_hits cas_misses cas_hits cas_badval touch_hits touch_misses bytes_read bytes_written limit_maxbytes threads "
        "bytes curr_items total_items evictions"
    )
    assert set(names.split()) <= set(stats)
    assert int(stats["get_hits"]) >= 1 and int(stats["get_misses"]) >= 1 and int(stats["curr_items"]) >= 1


@pytest.mark.parametrize("topic", ["settings", "items", "slabs", "sizes", "conns"])
def test_stats_topics(topic):
    @with_client()
    async def body(client):
        await client.set(b"k", b"v")
        await client.stats(HOST, topic)

    body()


@with_client()
async def test_verbosity(client):
    await client.verbosity(HOST, 0)


@with_client()
async def test_cache_memlimit(client):
    await client.cache_memlimit(HOST, 64)
