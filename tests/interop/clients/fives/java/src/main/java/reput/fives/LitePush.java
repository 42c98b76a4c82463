package reput.fives;

import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.LitePushConsumer;

/** A push consumer of lite topics. */
final class LitePush implements Consuming {
    final Noted taken = new Noted();
    private final LitePushConsumer consumer;

    LitePush(ClientConfiguration configuration, JsonObject asked) throws Exception {
        consumer = ClientServiceProvider.loadService().newLitePushConsumerBuilder()
            .setClientConfiguration(configuration)
            .setConsumerGroup(asked.get("group").getAsString())
            .bindTopic(asked.get("topic").getAsString())
            .setMessageListener(message -> {
                taken.add(Noted.row(message));
                return ConsumeResult.SUCCESS;
            })
            .build();
    }

    void change(JsonArray added, JsonArray removed) throws Exception {
        for (int at = 0; at < added.size(); at++) {
            consumer.subscribeLite(added.get(at).getAsString());
        }
        for (int at = 0; at < removed.size(); at++) {
            consumer.unsubscribeLite(removed.get(at).getAsString());
        }
    }

    @Override
    public void stop() throws Exception {
        consumer.close();
    }
}
