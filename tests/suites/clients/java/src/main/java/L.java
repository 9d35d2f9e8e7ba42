import io.lettuce.core.KeyValue;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.ScanArgs;
import io.lettuce.core.ScanIterator;
import io.lettuce.core.ScoredValue;
import io.lettuce.core.SetArgs;
import io.lettuce.core.TransactionResult;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.async.RedisAsyncCommands;
import io.lettuce.core.api.sync.RedisCommands;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;

/** Exercises Lettuce, which speaks RESP3 and sends what many callers ask over one connection. */
public final class L {
    public static void main(String[] arguments) {
        RedisClient client = RedisClient.create("redis://127.0.0.1:6379");
        StatefulRedisConnection<String, String> connection = client.connect();
        RedisCommands<String, String> redis = connection.sync();
        redis.flushall();
        Trial trial = Trial.make();

        trial.add("ping", () -> Trial.equal("PONG", redis.ping()));
        trial.add("strings", () -> {
            Trial.equal(null, redis.get("missing"));
            Trial.equal("OK", redis.set("s", "v", SetArgs.Builder.ex(100)));
            Trial.equal("v", redis.setGet("s", "w"));
            Trial.equal(null, redis.set("s", "x", SetArgs.Builder.nx()));
            Trial.equal("w", redis.getdel("s"));
        });
        trial.add("several_keys", () -> {
            redis.mset(Map.of("a", "1", "b", "2"));
            Trial.equal(List.of(KeyValue.just("a", "1"), KeyValue.empty("missing")), redis.mget("a", "missing"));
            Trial.equal(2L, redis.unlink("a", "b"));
        });
        trial.add("hashes", () -> {
            Trial.equal(2L, redis.hset("h", Map.of("f", "1", "g", "2")));
            Trial.equal(Map.of("f", "1", "g", "2"), redis.hgetall("h"));
        });
        trial.add("lists", () -> {
            redis.rpush("l", "a", "b", "c");
            Trial.equal(List.of("b", "c"), redis.lrange("l", 1, -1));
        });
        trial.add("sets", () -> {
            redis.sadd("t", "a", "b");
            Trial.equal(Set.of("a", "b"), redis.smembers("t"));
        });
        trial.add("sorted_sets", () -> {
            redis.zadd("z", 2.0, "two", 1.0, "one");
            Trial.equal(
                List.of(ScoredValue.just(1.0, "one"), ScoredValue.just(2.0, "two")), redis.zrangeWithScores("z", 0, -1));
        });
        trial.add("many_at_once", () -> {
            RedisAsyncCommands<String, String> async = connection.async();
            List<RedisFuture<Long>> replies = new ArrayList<>();
            for (int i = 0; i < 10_000; i++) {
                replies.add(async.incr("n"));
            }
            Trial.equal(10_000L, replies.get(9_999).get(30, TimeUnit.SECONDS));
        });
        trial.add("transactions", () -> {
            redis.multi();
            redis.set("x", "1");
            redis.incr("x");
            TransactionResult result = redis.exec();
            Trial.equal("OK", result.get(0));
            Trial.equal(2L, result.get(1));
        });
        trial.add("scan", () -> {
            for (int i = 0; i < 300; i++) {
                redis.set("scan:" + i, "v");
            }
            long count = ScanIterator.scan(redis, ScanArgs.Builder.matches("scan:*").limit(50)).stream().distinct().count();
            Trial.equal(300L, count);
        });
        trial.add("errors", () -> {
            redis.set("word", "v");
            try {
                redis.incr("word");
                throw new AssertionError("no error");
            } catch (RedisCommandExecutionException error) {
                Trial.equal("ERR value is not an integer or out of range", error.getMessage());
            }
        });
        trial.add("client_name", () -> {
            redis.clientSetname("trial");
            Trial.equal("trial", redis.clientGetname());
            Trial.equal(true, redis.clientList().contains("name=trial"));
        });

        trial.run();
        System.exit(0);
    }
}
