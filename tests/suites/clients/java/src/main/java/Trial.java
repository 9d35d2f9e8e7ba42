import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import java.util.Random;

/** Named tests, run one after the other; prints a line {@code pass NAME} or {@code fail NAME why} for each. */
final class Trial {
    /** A test, which fails by throwing. */
    interface Body {
        void run() throws Exception;
    }

    private final Map<String, Body> bodies = new LinkedHashMap<>();

    void add(String name, Body body) {
        bodies.put(name, body);
    }

    void run() {
        bodies.forEach((name, body) -> {
            try {
                body.run();
                System.out.println("pass " + name);
            } catch (Throwable error) {
                System.out.println("fail " + name + " " + error);
            }
        });
    }

    static void equal(Object expected, Object found) {
        if (!Objects.deepEquals(expected, found)) {
            throw new AssertionError("expected " + expected + ", found " + found);
        }
    }

    static byte[] bytes(int size) {
        byte[] value = new byte[size];
        // Clients compress what can be compressed.
        new Random(size).nextBytes(value);
        return value;
    }

    static String longKey() {
        char[] key = new char[250];
        Arrays.fill(key, 'k');
        return new String(key);
    }

    private Trial() {}

    static Trial make() {
        return new Trial();
    }
}
