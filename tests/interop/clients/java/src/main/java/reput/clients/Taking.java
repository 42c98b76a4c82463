package reput.clients;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** Somebody who takes messages, and what was taken. */
abstract class Taking {
    private final List<Map<String, Object>> taken = new ArrayList<>();

    final synchronized void add(Map<String, Object> row) {
        taken.add(row);
        notifyAll();
    }

    /** All that was taken, once there are {@code count} or the time is over. */
    final synchronized List<Map<String, Object>> taken(int count, int ms) throws InterruptedException {
        long end = System.nanoTime() + ms * 1_000_000L;
        for (long left = ms; taken.size() < count && left > 0; left = (end - System.nanoTime()) / 1_000_000L) {
            wait(left);
        }
        return new ArrayList<>(taken);
    }

    /** Ends it, with offsets told to the broker. */
    abstract void stop();
}
