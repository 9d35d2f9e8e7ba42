import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import net.rubyeye.xmemcached.Counter;
import net.rubyeye.xmemcached.GetsResponse;
import net.rubyeye.xmemcached.MemcachedClient;
import net.rubyeye.xmemcached.XMemcachedClientBuilder;
import net.rubyeye.xmemcached.command.BinaryCommandFactory;
import net.rubyeye.xmemcached.utils.AddrUtil;

/**
 * Exercises xmemcached, several connections, gets and sets joined: over its text protocol, which is its default, or with the
 * argument `binary` over the other.
 */
public final class X {
    public static void main(String[] arguments) throws Exception {
        XMemcachedClientBuilder builder = new XMemcachedClientBuilder(AddrUtil.getAddresses("127.0.0.1:11211"));
        builder.setConnectionPoolSize(3);
        builder.setOpTimeout(10_000);
        if (List.of(arguments).contains("binary")) {
            builder.setCommandFactory(new BinaryCommandFactory());
        }
        MemcachedClient client = builder.build();
        client.flushAll();
        Trial trial = Trial.make();

        trial.add("miss", () -> {
            Trial.equal(null, client.get("missing"));
            Trial.equal(null, client.gets("missing"));
            Trial.equal(false, client.delete("missing"));
        });
        trial.add("set_and_get", () -> {
            Trial.equal(true, client.set("k", 100, "value"));
            Trial.equal("value", client.get("k"));
            Trial.equal(true, client.set("number", 100, 42L));
            Trial.equal(42L, client.<Long>get("number"));
        });
        for (int size : new int[] {1, 1000, 16_000, 65_536, 900_000}) {
            trial.add("size_" + size, () -> {
                Trial.equal(true, client.set("size", 100, Trial.bytes(size)));
                Trial.equal(Trial.bytes(size), client.<byte[]>get("size"));
            });
        }
        trial.add("longest_key", () -> {
            Trial.equal(true, client.set(Trial.longKey(), 100, "v"));
            Trial.equal("v", client.get(Trial.longKey()));
        });
        trial.add("add_and_replace", () -> {
            Trial.equal(false, client.replace("a", 100, "1"));
            Trial.equal(true, client.add("a", 100, "2"));
            Trial.equal(false, client.add("a", 100, "3"));
            Trial.equal(true, client.replace("a", 100, "4"));
            Trial.equal("4", client.get("a"));
        });
        trial.add("append_and_prepend", () -> {
            Trial.equal(false, client.append("p", "x"));
            Trial.equal(true, client.set("p", 100, "b"));
            Trial.equal(true, client.append("p", "c"));
            Trial.equal(true, client.prepend("p", "a"));
            Trial.equal("abc", client.get("p"));
        });
        trial.add("cas", () -> {
            Trial.equal(true, client.set("c", 100, "1"));
            GetsResponse<String> value = client.gets("c");
            Trial.equal(true, client.cas("c", 100, "2", value.getCas()));
            Trial.equal(false, client.cas("c", 100, "3", value.getCas()));
            Trial.equal("2", client.get("c"));
        });
        trial.add("counters", () -> {
            Trial.equal(10L, client.incr("n", 5, 10));
            Trial.equal(15L, client.incr("n", 5, 10));
            Trial.equal(0L, client.decr("n", 100));
            Counter counter = client.getCounter("counter", 7);
            Trial.equal(8L, counter.incrementAndGet());
        });
        trial.add("touch", () -> {
            Trial.equal(false, client.touch("t", 100));
            Trial.equal(true, client.set("t", 100, "v"));
            Trial.equal(true, client.touch("t", 200));
        });
        trial.add("get_and_touch", () -> {
            Trial.equal(true, client.set("g", 100, "v"));
            Trial.equal("v", client.get("g"));
        });
        trial.add("delete", () -> {
            Trial.equal(true, client.set("d", 100, "v"));
            Trial.equal(true, client.delete("d"));
            Trial.equal(null, client.get("d"));
        });
        trial.add("no_reply", () -> {
            client.setWithNoReply("q", 100, "1");
            client.addWithNoReply("q", 100, "2");
            client.appendWithNoReply("q", "3");
            client.prependWithNoReply("q", "0");
            client.replaceWithNoReply("other", 100, "x");
            // Requests without answers may take any of the connections.
            for (int i = 0; i < 100 && !"013".equals(client.get("q")); i++) {
                Thread.sleep(20);
            }
            client.deleteWithNoReply("q");
        });
        trial.add("expiry", () -> {
            Trial.equal(true, client.set("e", 1, "v"));
            Thread.sleep(2500);
            Trial.equal(null, client.get("e"));
        });
        trial.add("many", () -> {
            List<String> keys = new ArrayList<>();
            for (int i = 0; i < 500; i++) {
                keys.add("many" + i);
                Trial.equal(true, client.set("many" + i, 100, "value" + i));
            }
            Map<String, String> found = client.get(keys);
            Trial.equal(500, found.size());
            Trial.equal("value499", found.get("many499"));
            Trial.equal(500, client.gets(keys).size());
        });
        trial.add("threads", () -> {
            client.set("shared", 100, "0");
            AtomicInteger wrong = new AtomicInteger();
            List<Thread> threads = new ArrayList<>();
            for (int t = 0; t < 8; t++) {
                int number = t;
                Thread thread = new Thread(() -> {
                    try {
                        for (int i = 0; i < 200; i++) {
                            String key = "thread" + number + ":" + i;
                            client.set(key, 100, key);
                            client.incr("shared", 1);
                            if (!key.equals(client.get(key))) {
                                wrong.incrementAndGet();
                            }
                        }
                    } catch (Exception error) {
                        wrong.incrementAndGet();
                    }
                });
                threads.add(thread);
                thread.start();
            }
            for (Thread thread : threads) {
                thread.join();
            }
            Trial.equal(0, wrong.get());
            Trial.equal("1600", client.<String>get("shared").trim());
        });
        trial.add("stats", () -> {
            Map<String, String> stats = client.getStats().values().iterator().next();
            Trial.equal(true, Integer.parseInt(stats.get("curr_items")) > 0);
            client.getStatsByItem("items");
        });
        trial.add("version", () -> Trial.equal(true, !client.getVersions().values().iterator().next().isEmpty()));
        trial.add("namespace", () -> {
            client.withNamespace("ns", c -> c.set("k", 100, "inner"));
            Trial.equal("inner", client.withNamespace("ns", c -> c.get("k")));
            client.invalidateNamespace("ns");
            Trial.equal(null, client.withNamespace("ns", c -> c.get("k")));
        });
        trial.add("flush", () -> {
            client.flushAll();
            Trial.equal(null, client.get("k"));
        });
        trial.run();
        client.shutdown();
        System.exit(0);
    }
}
