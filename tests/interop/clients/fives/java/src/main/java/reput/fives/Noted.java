package reput.fives;

import com.google.gson.JsonObject;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.apis.message.MessageView;

/** What has come so far, for a test that waits for it. */
final class Noted {
    private final List<Map<String, Object>> all = new ArrayList<>();

    synchronized void add(Map<String, Object> row) {
        all.add(row);
        notifyAll();
    }

    /** All that has come, once there are {@code count} or {@code ms} are over. */
    synchronized List<Map<String, Object>> wait(JsonObject asked) throws InterruptedException {
        int count = asked.get("count").getAsInt();
        long left = asked.get("ms").getAsLong();
        long end = System.nanoTime() + left * 1_000_000L;
        for (; all.size() < count && left > 0; left = (end - System.nanoTime()) / 1_000_000L) {
            wait(left);
        }
        return new ArrayList<>(all);
    }

    static Map<String, Object> row(MessageView message) {
        Map<String, Object> row = new LinkedHashMap<>();
        row.put("topic", message.getTopic());
        row.put("body", body(message));
        row.put("tag", message.getTag().orElse(null));
        row.put("keys", message.getKeys());
        row.put("properties", message.getProperties());
        row.put("attempt", message.getDeliveryAttempt());
        row.put("lite_topic", message.getLiteTopic().orElse(null));
        return row;
    }

    static String body(MessageView message) {
        ByteBuffer body = message.getBody();
        return StandardCharsets.UTF_8.decode(body).toString();
    }
}
