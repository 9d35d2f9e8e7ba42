import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import net.spy.memcached.CASResponse;
import net.spy.memcached.CASValue;
import net.spy.memcached.ConnectionFactoryBuilder;
import net.spy.memcached.MemcachedClient;

/**
 * Exercises spymemcached, many operations on one connection, gets joined: over its text protocol, which is its default, or
 * with the argument `binary` over the other.
 */
public final class Spy {
    private static <T> T get(Future<T> future) throws Exception {
        return future.get(10, TimeUnit.SECONDS);
    }

    public static void main(String[] arguments) throws Exception {
        System.setProperty("net.spy.log.LoggerImpl", "net.spy.memcached.compat.log.SunLogger");
        java.util.logging.Logger.getLogger("net.spy.memcached").setLevel(java.util.logging.Level.OFF);
        ConnectionFactoryBuilder builder = new ConnectionFactoryBuilder().setOpTimeout(10_000);
        if (List.of(arguments).contains("binary")) {
            builder.setProtocol(ConnectionFactoryBuilder.Protocol.BINARY);
        }
        MemcachedClient client = new MemcachedClient(
            builder.build(), List.of(new InetSocketAddress("127.0.0.1", 11211)));
        get(client.flush());
        Trial trial = Trial.make();

        trial.add("miss", () -> {
            Trial.equal(null, client.get("missing"));
            Trial.equal(null, client.gets("missing"));
            Trial.equal(false, get(client.delete("missing")));
        });
        trial.add("set_and_get", () -> {
            Trial.equal(true, get(client.set("k", 100, "value")));
            Trial.equal("value", client.get("k"));
            Trial.equal(true, get(client.set("number", 100, 42L)));
            Trial.equal(42L, client.get("number"));
            Trial.equal(true, get(client.set("empty", 100, new byte[0])));
            Trial.equal(new byte[0], client.get("empty"));
        });
        for (int size : new int[] {1, 1000, 16_000, 65_536, 900_000}) {
            trial.add("size_" + size, () -> {
                Trial.equal(true, get(client.set("size", 100, Trial.bytes(size))));
                Trial.equal(Trial.bytes(size), client.get("size"));
            });
        }
        trial.add("longest_key", () -> {
            Trial.equal(true, get(client.set(Trial.longKey(), 100, "v")));
            Trial.equal("v", client.get(Trial.longKey()));
        });
        trial.add("add_and_replace", () -> {
            Trial.equal(false, get(client.replace("a", 100, "1")));
            Trial.equal(true, get(client.add("a", 100, "2")));
            Trial.equal(false, get(client.add("a", 100, "3")));
            Trial.equal(true, get(client.replace("a", 100, "4")));
            Trial.equal("4", client.get("a"));
        });
        trial.add("append_and_prepend", () -> {
            Trial.equal(false, get(client.append("p", "x")));
            Trial.equal(true, get(client.set("p", 100, "b")));
            Trial.equal(true, get(client.append("p", "c")));
            Trial.equal(true, get(client.prepend("p", "a")));
            Trial.equal("abc", client.get("p"));
        });
        trial.add("cas", () -> {
            Trial.equal(true, get(client.set("c", 100, "1")));
            CASValue<Object> value = client.gets("c");
            Trial.equal(CASResponse.OK, client.cas("c", value.getCas(), "2"));
            Trial.equal(CASResponse.EXISTS, client.cas("c", value.getCas(), "3"));
            Trial.equal(CASResponse.NOT_FOUND, client.cas("none", value.getCas(), "3"));
        });
        trial.add("counters", () -> {
            Trial.equal(-1L, client.incr("n", 1));
            Trial.equal(10L, client.incr("n", 1, 10));
            Trial.equal(15L, client.incr("n", 5));
            Trial.equal(0L, client.decr("n", 100));
        });
        trial.add("touch", () -> {
            Trial.equal(false, get(client.touch("t", 100)));
            Trial.equal(true, get(client.set("t", 100, "v")));
            Trial.equal(true, get(client.touch("t", 200)));
        });
        trial.add("delete", () -> {
            Trial.equal(true, get(client.set("d", 100, "v")));
            Trial.equal(true, get(client.delete("d")));
            Trial.equal(null, client.get("d"));
        });
        trial.add("expiry", () -> {
            Trial.equal(true, get(client.set("e", 1, "v")));
            Thread.sleep(2500);
            Trial.equal(null, client.get("e"));
        });
        trial.add("many", () -> {
            List<Future<Boolean>> stored = new ArrayList<>();
            List<String> keys = new ArrayList<>();
            for (int i = 0; i < 2000; i++) {
                keys.add("many" + i);
                stored.add(client.set("many" + i, 100, "value" + i));
            }
            for (Future<Boolean> each : stored) {
                Trial.equal(true, get(each));
            }
            Map<String, Object> found = client.getBulk(keys);
            Trial.equal(2000, found.size());
            Trial.equal("value1999", found.get("many1999"));
        });
        trial.add("many_at_once", () -> {
            List<Future<Object>> found = new ArrayList<>();
            for (int i = 0; i < 2000; i++) {
                found.add(client.asyncGet("many" + i));
            }
            for (int i = 0; i < 2000; i++) {
                Trial.equal("value" + i, get(found.get(i)));
            }
        });
        trial.add("stats", () -> {
            Map<String, String> stats = client.getStats().values().iterator().next();
            Trial.equal(true, Integer.parseInt(stats.get("curr_items")) > 0);
            client.getStats("items");
            client.getStats("settings");
        });
        trial.add("version", () -> Trial.equal(true, !client.getVersions().values().iterator().next().isEmpty()));
        trial.add("too_large", () -> {
            boolean stored;
            try {
                stored = get(client.set("large", 100, Trial.bytes(3_000_000)));
            } catch (Exception refused) {
                stored = false;
            }
            Trial.equal(false, stored);
            Trial.equal(true, get(client.set("after", 100, "v")));
        });
        trial.add("flush", () -> {
            Trial.equal(true, get(client.flush()));
            Trial.equal(null, client.get("k"));
        });
        trial.run();
        client.shutdown();
        System.exit(0);
    }
}
