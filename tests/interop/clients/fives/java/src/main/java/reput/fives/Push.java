package reput.fives;

import com.google.gson.JsonObject;
import java.util.Map;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.PushConsumer;
import org.apache.rocketmq.client.apis.message.MessageView;

/** A push consumer: it refuses bodies of {@code fail…}, and of {@code once…} one time. */
final class Push implements Consuming {
    final Noted taken = new Noted();
    private final PushConsumer consumer;

    Push(ClientConfiguration configuration, JsonObject asked, FilterExpression filter) throws Exception {
        consumer = ClientServiceProvider.loadService().newPushConsumerBuilder()
            .setClientConfiguration(configuration)
            .setConsumerGroup(asked.get("group").getAsString())
            .setSubscriptionExpressions(Map.of(asked.get("topic").getAsString(), filter))
            .setMessageListener(this::consume)
            .build();
    }

    private ConsumeResult consume(MessageView message) {
        taken.add(Noted.row(message));
        String body = Noted.body(message);
        boolean refused = body.startsWith("fail") || body.startsWith("once") && message.getDeliveryAttempt() == 1;
        return refused ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
    }

    @Override
    public void stop() throws Exception {
        consumer.close();
    }
}
