package reput.fives;

import com.google.gson.JsonObject;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageView;

/** A consumer that asks for messages. */
final class Simple implements Consuming {
    private final SimpleConsumer consumer;

    Simple(ClientConfiguration configuration, JsonObject asked, FilterExpression filter) throws Exception {
        consumer = ClientServiceProvider.loadService().newSimpleConsumerBuilder()
            .setClientConfiguration(configuration)
            .setConsumerGroup(asked.get("group").getAsString())
            .setAwaitDuration(Duration.ofSeconds(6))
            .setSubscriptionExpressions(Map.of(asked.get("topic").getAsString(), filter))
            .build();
    }

    /** Receives until there are {@code count} or {@code ms} are over; acknowledges unless told not to. */
    List<Map<String, Object>> receive(JsonObject asked) throws Exception {
        Duration invisible = Duration.ofSeconds(asked.get("invisible_s").getAsLong());
        long end = System.nanoTime() + asked.get("ms").getAsLong() * 1_000_000L;
        List<Map<String, Object>> rows = new ArrayList<>();
        while (rows.size() < asked.get("count").getAsInt() && System.nanoTime() < end) {
            for (MessageView each : consumer.receive(16, invisible)) {
                if (asked.has("change_s")) {
                    consumer.changeInvisibleDuration(each, Duration.ofSeconds(asked.get("change_s").getAsLong()));
                }
                if (asked.get("ack").getAsBoolean()) {
                    consumer.ack(each);
                }
                rows.add(Noted.row(each));
            }
        }
        return rows;
    }

    @Override
    public void stop() throws Exception {
        consumer.close();
    }
}
