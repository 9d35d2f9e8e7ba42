import java.nio.charset.StandardCharsets;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisPooled;
import redis.clients.jedis.Pipeline;
import redis.clients.jedis.Response;
import redis.clients.jedis.Transaction;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.params.ScanParams;
import redis.clients.jedis.params.SetParams;
import redis.clients.jedis.resps.ScanResult;
import redis.clients.jedis.resps.Tuple;

/** Exercises Jedis: one connection, a pool of them, pipelines and transactions. */
public final class J {
    public static void main(String[] arguments) {
        Jedis jedis = new Jedis("127.0.0.1", 6379, 10_000);
        jedis.flushAll();
        Trial trial = Trial.make();

        trial.add("ping", () -> Trial.equal("PONG", jedis.ping()));
        trial.add("strings", () -> {
            Trial.equal(null, jedis.get("missing"));
            Trial.equal("OK", jedis.set("s", "v"));
            Trial.equal("v", jedis.get("s"));
            Trial.equal(null, jedis.set("s", "w", SetParams.setParams().nx().ex(100)));
            Trial.equal("OK", jedis.set("s", "w", SetParams.setParams().xx().px(100_000)));
            Trial.equal(true, jedis.pttl("s") > 90_000);
            Trial.equal("w", jedis.getDel("s"));
            Trial.equal(false, jedis.exists("s"));
        });
        for (int size : new int[] {0, 1, 16_000, 65_536, 900_000}) {
            trial.add("size_" + size, () -> {
                byte[] key = "size".getBytes(StandardCharsets.UTF_8);
                jedis.set(key, Trial.bytes(size));
                Trial.equal(Trial.bytes(size), jedis.get(key));
            });
        }
        trial.add("numbers", () -> {
            Trial.equal(1L, jedis.incr("n"));
            Trial.equal(11L, jedis.incrBy("n", 10));
            Trial.equal(11.5, jedis.incrByFloat("n", 0.5));
        });
        trial.add("several_keys", () -> {
            jedis.mset("a", "1", "b", "2");
            Trial.equal(java.util.Arrays.asList("1", null, "2"), jedis.mget("a", "missing", "b"));
            Trial.equal(2L, jedis.del("a", "b", "missing"));
        });
        trial.add("hashes", () -> {
            Trial.equal(2L, jedis.hset("h", Map.of("f", "1", "g", "2")));
            Trial.equal(Map.of("f", "1", "g", "2"), jedis.hgetAll("h"));
            Trial.equal(3L, jedis.hincrBy("h", "g", 1));
            Trial.equal(1L, jedis.hdel("h", "f"));
            Trial.equal(Set.of("g"), jedis.hkeys("h"));
        });
        trial.add("lists", () -> {
            Trial.equal(3L, jedis.rpush("l", "a", "b", "c"));
            Trial.equal(List.of("a", "b", "c"), jedis.lrange("l", 0, -1));
            Trial.equal("OK", jedis.ltrim("l", 1, 2));
            Trial.equal("b", jedis.lindex("l", 0));
            Trial.equal("c", jedis.rpop("l"));
        });
        trial.add("sets", () -> {
            Trial.equal(2L, jedis.sadd("t", "a", "b"));
            Trial.equal(Set.of("a", "b"), jedis.smembers("t"));
            Trial.equal(true, jedis.sismember("t", "a"));
            Trial.equal(1L, jedis.scard("t") - jedis.srem("t", "a"));
        });
        trial.add("sorted_sets", () -> {
            Trial.equal(2L, jedis.zadd("z", Map.of("one", 1.0, "two", 2.0)));
            Trial.equal(List.of(new Tuple("one", 1.0), new Tuple("two", 2.0)), jedis.zrangeWithScores("z", 0, -1));
            Trial.equal(1L, jedis.zrank("z", "two"));
            Trial.equal(new Tuple("one", 1.0), jedis.zpopmin("z"));
        });
        trial.add("pipelines", () -> {
            Pipeline pipeline = jedis.pipelined();
            Response<String> first = pipeline.set("p", "0");
            for (int i = 0; i < 10_000; i++) {
                pipeline.incr("p");
            }
            Response<String> last = pipeline.get("p");
            pipeline.sync();
            Trial.equal("OK", first.get());
            Trial.equal("10000", last.get());
        });
        trial.add("transactions", () -> {
            Transaction transaction = jedis.multi();
            transaction.set("x", "1");
            Response<Long> grown = transaction.incr("x");
            Trial.equal(2, transaction.exec().size());
            Trial.equal(2L, grown.get());
        });
        trial.add("watch", () -> {
            jedis.watch("x");
            try (Jedis other = new Jedis("127.0.0.1", 6379)) {
                other.set("x", "other");
            }
            Transaction transaction = jedis.multi();
            transaction.set("x", "mine");
            Trial.equal(null, transaction.exec());
            Trial.equal("other", jedis.get("x"));
        });
        trial.add("scan", () -> {
            for (int i = 0; i < 1_000; i++) {
                jedis.set("scan:" + i, "v");
            }
            Set<String> found = new HashSet<>();
            String cursor = ScanParams.SCAN_POINTER_START;
            do {
                ScanResult<String> page = jedis.scan(cursor, new ScanParams().match("scan:*").count(100));
                found.addAll(page.getResult());
                cursor = page.getCursor();
            } while (!cursor.equals(ScanParams.SCAN_POINTER_START));
            Trial.equal(1_000, found.size());
        });
        trial.add("errors", () -> {
            jedis.set("word", "v");
            try {
                jedis.incr("word");
                throw new AssertionError("no error");
            } catch (JedisDataException error) {
                Trial.equal("ERR value is not an integer or out of range", error.getMessage());
            }
            try {
                jedis.lpush("word", "v");
                throw new AssertionError("no error");
            } catch (JedisDataException error) {
                Trial.equal(true, error.getMessage().startsWith("WRONGTYPE"));
            }
        });
        trial.add("a_pool_with_threads", () -> {
            try (JedisPooled pool = new JedisPooled("127.0.0.1", 6379)) {
                Thread[] threads = new Thread[8];
                for (int number = 0; number < threads.length; number++) {
                    threads[number] = new Thread(() -> {
                        for (int i = 0; i < 500; i++) {
                            pool.incr("shared");
                        }
                    });
                    threads[number].start();
                }
                for (Thread thread : threads) {
                    thread.join();
                }
                Trial.equal("4000", pool.get("shared"));
            }
        });
        trial.add("flush", () -> {
            Trial.equal("OK", jedis.flushDB());
            Trial.equal(0L, jedis.dbSize());
        });

        trial.run();
        System.exit(0);
    }
}
