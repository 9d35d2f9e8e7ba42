"""The fixtures that aiomcache's tests ask for, on a server that runs already."""

import pytest

import aiomcache


@pytest.fixture
def mcache_params():
    return {"host": "127.0.0.1", "port": 11211}


@pytest.fixture
async def mcache(mcache_params):
    client = aiomcache.Client(**mcache_params)
    yield client
    await client.close()
