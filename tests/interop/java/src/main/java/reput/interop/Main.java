package reput.interop;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Drives the real RocketMQ store: {@code dump}, {@code write}, {@code bench}, {@code serve} or {@code die}, see
 * each class.
 *
 * <p>One source for 4.9.x and 5.x: classes that moved between packages are found through imports on
 * demand, what differs otherwise goes through reflection in {@link Stores}.
 */
public final class Main {
    static final int KILLED = 137;

    private static final Set<String> SWITCHES = Set.of(
        "hold", "index", "kill", "light-queues", "queries", "record-crc", "sync", "times", "undispatched");

    private final Map<String, String> options = new HashMap<>();
    private final List<String> operands = new ArrayList<>();

    Main(String[] arguments) {
        for (int i = 0; i < arguments.length; i++) {
            if (!arguments[i].startsWith("--")) {
                operands.add(arguments[i]);
                continue;
            }
            String name = arguments[i].substring(2);
            options.put(name, SWITCHES.contains(name) ? "true" : arguments[++i]);
        }
    }

    public static void main(String[] arguments) throws Exception {
        int status = 1;
        try {
            Main main = new Main(arguments);
            String command = main.operand(0);
            if (command.equals("dump")) {
                Dump.run(main);
            } else if (command.equals("write")) {
                Write.run(main);
            } else if (command.equals("bench")) {
                Bench.run(main);
            } else if (command.equals("serve")) {
                Serve.run();
            } else if (command.equals("die")) {
                Work.die(main);
            } else {
                throw new IllegalArgumentException("dump, write, bench, serve or die, not " + command);
            }
            status = 0;
        } catch (Throwable error) {
            error.printStackTrace();
        }
        // The store leaves threads behind that are no daemons.
        System.exit(status);
    }

    String operand(int position) {
        if (position >= operands.size()) {
            throw new IllegalArgumentException("operand " + position + " is missing");
        }
        return operands.get(position);
    }

    boolean has(String name) {
        return options.containsKey(name);
    }

    String text(String name, String otherwise) {
        return options.getOrDefault(name, otherwise);
    }

    int number(String name, int otherwise) {
        return options.containsKey(name) ? Integer.parseInt(options.get(name)) : otherwise;
    }
}
