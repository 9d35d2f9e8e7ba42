"""Exercises meta-memcache, a client that speaks nothing but the meta commands: leases, recaching, stale items, base64 keys."""

import random
import threading
import time

import pytest
from meta_memcache import (
    CacheClient,
    Conflict,
    Key,
    LeasePolicy,
    Miss,
    NotStored,
    RecachePolicy,
    RequestFlags,
    ServerAddress,
    SetMode,
    StalePolicy,
    Success,
    Value,
    connection_pool_factory_builder,
)
from meta_memcache.protocol import MA_MODE_DEC

count = iter(range(1_000_000))


@pytest.fixture
def client():
    return connect()


@pytest.fixture
def key():
    """A key that no other test has used; the meta commands cannot flush."""
    return Key(f"key:{time.time_ns()}:{next(count)}")


def connect():
    return CacheClient.cache_client_from_servers(
        servers=[ServerAddress(host="127.0.0.1", port=11211)],
        connection_pool_factory_fn=connection_pool_factory_builder(max_pool_size=20, recv_timeout=5),
    )


def test_miss(client, key):
    assert client.get(key) is None
    assert isinstance(client.meta_get(key, RequestFlags(return_value=True)), Miss)
    assert client.delete(key) is False
    assert client.invalidate(key) is True
    assert client.touch(key, ttl=10) is False


@pytest.mark.parametrize("value", [b"bytes", "text", 42, -1, {"a": [1, 2.5, None]}, b"", b"\r\nVA 3\r\nEN\r\n"], ids=str)
def test_set_and_get(client, key, value):
    assert client.set(key, value, ttl=100) is True
    assert client.get(key) == value


@pytest.mark.parametrize("size", [1, 1023, 4095, 4096, 65_536, 1_000_000])
def test_sizes(client, key, size):
    value = bytes(i % 251 for i in range(size))
    assert client.set(key, value, ttl=100) is True
    assert client.get(key) == value


def test_too_large(client, key):
    # What is random cannot be compressed.
    with pytest.raises(Exception, match="Memcache error"):
        client.set(key, random.Random(1).randbytes(2 << 20), ttl=100)
    assert client.set(key, b"small", ttl=100) is True
    assert client.get(key) == b"small"


@pytest.mark.parametrize("name", ["a b", "\u732b", "\u00e9", "k" * 251, "k" * 500, "line\r\nend", "nul\0byte"], ids=ascii)
def test_keys_that_need_base64(client, name):
    key = Key(name)
    assert client.set(key, b"v", ttl=100) is True
    assert client.get(key) == b"v"
    assert client.multi_get([key]) == {key: b"v"}
    assert client.delta_initialize(Key(name + "n"), delta=1, initial_value=5, initial_ttl=100) is True
    assert client.delete(key) is True
    assert client.get(key) is None


def test_longest_plain_key(client):
    key = Key("p" * 250)
    assert client.set(key, b"v", ttl=100) is True
    assert client.get(key) == b"v"


def test_modes(client, key):
    assert client.set(key, b"x", ttl=100, set_mode=SetMode.REPLACE) is False
    assert client.set(key, b"x", ttl=100, set_mode=SetMode.APPEND) is False
    assert client.set(key, b"x", ttl=100, set_mode=SetMode.PREPEND) is False
    assert client.set(key, b"b", ttl=100, set_mode=SetMode.ADD) is True
    assert client.set(key, b"x", ttl=100, set_mode=SetMode.ADD) is False
    assert client.set(key, b"c", ttl=100, set_mode=SetMode.APPEND) is True
    assert client.set(key, b"a", ttl=100, set_mode=SetMode.PREPEND) is True
    assert client.get(key) == b"abc"
    assert client.set(key, b"r", ttl=100, set_mode=SetMode.REPLACE) is True
    assert client.get(key) == b"r"


def test_refill_adds(client, key):
    assert client.refill(key, 1, ttl=100) is True
    assert client.refill(key, 2, ttl=100) is False
    assert client.get(key) == 1


def test_no_reply(client, key):
    for i in range(20):
        assert client.set(key, i, ttl=100, no_reply=True) is True
        assert client.get(key) == i
    client.touch(key, ttl=50, no_reply=True)
    client.delete(key, no_reply=True)
    client.delta(key, 1, no_reply=True)
    assert client.get(key) is None


def test_cas(client, key):
    token = client.set_cas(key, 1, ttl=100)
    assert isinstance(token, int) and token > 0 or token is None
    value, token = client.get_cas(key)
    assert value == 1
    assert client.set(key, 2, ttl=100, cas_token=token) is True
    assert client.set(key, 3, ttl=100, cas_token=token) is False
    assert isinstance(client.meta_set(key, b"3", RequestFlags(cas_token=token)), Conflict)
    assert client.get(key) == 2
    assert client.delete(key, cas_token=token) is False
    assert client.delete(key, cas_token=client.get_cas(key)[1]) is True


def test_cas_of_a_missing_item(client, key):
    assert isinstance(client.meta_set(key, b"3", RequestFlags(cas_token=7)), Miss)


def test_expiry(client, key):
    assert client.set(key, 1, ttl=1)
    time.sleep(2.2)
    assert client.get(key) is None


def test_touch(client, key):
    client.set(key, 1, ttl=1000)
    assert client.touch(key, ttl=5) is True
    assert client.meta_get(key, RequestFlags(return_ttl=True)).flags.ttl in (4, 5)
    assert client.get(key, touch_ttl=500) == 1
    assert client.meta_get(key, RequestFlags(return_ttl=True)).flags.ttl in (499, 500)


def test_what_get_can_ask(client, key):
    client.set(key, b"12345", ttl=100)
    ask = RequestFlags(
        return_value=True, return_ttl=True, return_size=True, return_client_flag=True, return_cas_token=True,
        return_last_access=True, return_fetched=True, return_key=True, opaque=b"opaque",
    )
    answer = client.meta_get(key, ask)
    assert isinstance(answer, Value)
    flags = answer.flags
    assert (answer.size, flags.client_flag, flags.fetched, flags.last_access) == (5, 16, False, 0)
    assert flags.ttl in (99, 100) and flags.cas_token > 0 and flags.opaque == b"opaque"
    assert client.meta_get(key, ask).flags.fetched is True


def test_looking_without_touching(client, key):
    client.set(key, 1, ttl=100)
    client.meta_get(key, RequestFlags(no_update_lru=True, return_value=True))
    assert client.meta_get(key, RequestFlags(return_fetched=True)).flags.fetched is False


def test_lasting_item(client, key):
    client.meta_set(key, b"1", RequestFlags(cache_ttl=0))
    assert client.meta_get(key, RequestFlags(return_ttl=True)).flags.ttl in (None, -1)


def test_lease(client, key):
    policy = LeasePolicy(ttl=30, miss_retries=1, miss_retry_wait=0.01)
    assert client.get_or_lease(key, lease_policy=policy) is None
    first = client.meta_get(key, RequestFlags(return_value=True, vivify_on_miss_ttl=30))
    assert isinstance(first, Value) and first.size == 0 and first.flags.win is False
    assert client.set(key, 5, ttl=100) is True
    assert client.get_or_lease(key, lease_policy=policy) == 5


def test_lease_has_one_winner(key):
    winners, values = [], []

    def read():
        client = connect()
        value = client.get_or_lease(key, lease_policy=LeasePolicy(ttl=30, miss_retries=30, miss_retry_wait=0.05))
        if value is None:
            winners.append(1)
            time.sleep(0.2)
            client.set(key, b"filled", ttl=100)
        else:
            values.append(value)

    threads = [threading.Thread(target=read) for _ in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert len(winners) == 1 and values == [b"filled"] * 7


def test_recache_has_one_winner(client, key):
    client.set(key, 1, ttl=20)
    assert client.get(key, recache_policy=RecachePolicy(ttl=10)) == 1
    assert client.get(key, recache_policy=RecachePolicy(ttl=30)) is None
    assert client.get(key, recache_policy=RecachePolicy(ttl=30)) == 1
    client.set(key, 2, ttl=100)
    assert client.get(key, recache_policy=RecachePolicy(ttl=30)) == 2


def test_stale_item(client, key):
    stale = StalePolicy(mark_stale_on_deletion_ttl=30)
    client.set(key, 1, ttl=100)
    _, token = client.get_cas(key)
    assert client.invalidate(key, stale_policy=stale) is True
    first = client.meta_get(key, RequestFlags(return_value=True, return_ttl=True))
    assert (first.flags.win, first.flags.stale) == (True, True) and first.flags.ttl in (29, 30)
    second = client.meta_get(key, RequestFlags(return_value=True))
    assert (second.flags.win, second.flags.stale) == (False, True)
    # The token is another one, so that who read before the invalidation does not write over it ...
    assert client.set(key, 2, ttl=100, cas_token=token + 1_000_000) is False
    # ... and with the token of the stale item the recached value is good.
    _, token = client.get_cas(key)
    assert client.set(key, 3, ttl=100, cas_token=token) is True
    third = client.meta_get(key, RequestFlags(return_value=True))
    assert (third.flags.win, third.flags.stale) in ((None, False), (False, False), (None, None))


def test_stale_set_on_an_older_token(client, key):
    client.set(key, 1, ttl=100)
    _, token = client.get_cas(key)
    client.set(key, 2, ttl=100)
    policy = StalePolicy(mark_stale_on_cas_mismatch=True)
    assert client.set(key, 3, ttl=100, cas_token=token, stale_policy=policy) is True
    answer = client.meta_get(key, RequestFlags(return_value=True))
    assert (answer.flags.win, answer.flags.stale) == (True, True)


def test_deltas(client, key):
    assert client.delta(key, 1) is False
    assert client.delta_and_get(key, 1) is None
    assert client.delta_initialize_and_get(key, delta=5, initial_value=100, initial_ttl=100) == 100
    assert client.delta_initialize_and_get(key, delta=5, initial_value=100, initial_ttl=100) == 105
    assert client.delta_and_get(key, -6) == 99
    assert client.delta_and_get(key, -1000) == 0
    assert client.delta_and_get(key, (1 << 64) - 1) == (1 << 64) - 1
    assert client.delta_and_get(key, 3, refresh_ttl=50) == 2
    assert client.meta_get(key, RequestFlags(return_ttl=True)).flags.ttl in (49, 50)


def test_delta_with_token(client, key):
    client.meta_set(key, b"10", RequestFlags(cache_ttl=100))
    _, token = client.get_cas(key)
    assert client.delta_and_get(key, 1, cas_token=token) == 11
    assert isinstance(client.meta_arithmetic(key, RequestFlags(cas_token=token)), Conflict)


def test_delta_of_text(client, key):
    client.meta_set(key, b"text", RequestFlags(cache_ttl=100))
    with pytest.raises(Exception, match="Memcache error"):
        client.delta_and_get(key, 1)
    assert client.get(key) == b"text"


def test_arithmetic_flags(client, key):
    ask = RequestFlags(ma_initial_value=7, vivify_on_miss_ttl=60, return_value=True, return_ttl=True, return_cas_token=True)
    assert isinstance(client.meta_arithmetic(key, ask), Value)
    answer = client.meta_arithmetic(key, RequestFlags(mode=MA_MODE_DEC, ma_delta_value=3, return_value=True, return_ttl=True))
    assert isinstance(answer, Value) and answer.value == "4" and answer.flags.ttl in (59, 60)


def test_concurrent_deltas(key):
    connect().delta_initialize(key, delta=1, initial_value=0, initial_ttl=100)

    def add():
        client = connect()
        for _ in range(200):
            assert client.delta(key, 1) is True

    threads = [threading.Thread(target=add) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert connect().delta_and_get(key, 0) == 800


def test_multi_get(client, key):
    keys = [Key(f"{key.key}:{i}") for i in range(300)]
    for i, each in enumerate(keys):
        assert client.set(each, i, ttl=100, no_reply=True)
    missing = Key(f"{key.key}:missing")
    found = client.multi_get([*keys, missing])
    assert found[missing] is None
    assert [found[each] for each in keys] == list(range(300))
    with_tokens = client.multi_get_cas(keys)
    assert len({token for _, token in with_tokens.values()}) == 300


def test_answers_of_writes(client, key):
    assert isinstance(client.meta_set(key, b"1", RequestFlags()), Success)
    assert isinstance(client.meta_set(key, b"1", RequestFlags(mode=SetMode.ADD.value)), NotStored)
    assert isinstance(client.meta_delete(key, RequestFlags()), Success)
    assert isinstance(client.meta_delete(key, RequestFlags()), Miss)
