package reput.fives;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.ProducerBuilder;
import org.apache.rocketmq.client.apis.producer.SendReceipt;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

/** A producer, which commits each transaction that it is asked for. */
final class Producing {
    final Noted checked = new Noted();
    private final ClientServiceProvider provider = ClientServiceProvider.loadService();
    private final Producer producer;

    Producing(ClientConfiguration configuration, JsonObject asked) throws Exception {
        List<String> topics = new ArrayList<>();
        asked.getAsJsonArray("topics").forEach(each -> topics.add(each.getAsString()));
        ProducerBuilder builder = provider.newProducerBuilder()
            .setClientConfiguration(configuration)
            .setTopics(topics.toArray(new String[0]));
        if (asked.has("checks")) {
            builder.setTransactionChecker(this::check);
        }
        producer = builder.build();
    }

    private TransactionResolution check(MessageView message) {
        checked.add(Noted.row(message));
        return TransactionResolution.COMMIT;
    }

    List<Map<String, Object>> send(JsonArray messages) {
        List<Map<String, Object>> sent = new ArrayList<>();
        for (JsonElement each : messages) {
            try {
                sent.add(send(each.getAsJsonObject()));
            } catch (Exception error) {
                sent.add(Map.of("error", error.toString()));
            }
        }
        return sent;
    }

    private Map<String, Object> send(JsonObject asked) throws Exception {
        Message message = message(asked);
        Map<String, Object> row = new HashMap<>();
        if (!asked.has("end")) {
            SendReceipt receipt = producer.send(message);
            row.put("id", receipt.getMessageId().toString());
            row.put("handle", receipt.getRecallHandle());
            return row;
        }
        Transaction transaction = producer.beginTransaction();
        row.put("id", producer.send(message, transaction).getMessageId().toString());
        if (asked.get("end").getAsString().equals("commit")) {
            transaction.commit();
        } else if (asked.get("end").getAsString().equals("rollback")) {
            transaction.rollback();
        }
        return row;
    }

    private Message message(JsonObject asked) {
        MessageBuilder builder = provider.newMessageBuilder()
            .setTopic(asked.get("topic").getAsString())
            .setBody(asked.get("body").getAsString().getBytes(StandardCharsets.UTF_8));
        if (asked.has("tag")) {
            builder.setTag(asked.get("tag").getAsString());
        }
        if (asked.has("keys")) {
            List<String> keys = new ArrayList<>();
            asked.getAsJsonArray("keys").forEach(each -> keys.add(each.getAsString()));
            builder.setKeys(keys.toArray(new String[0]));
        }
        if (asked.has("properties")) {
            asked.getAsJsonObject("properties").entrySet()
                .forEach(each -> builder.addProperty(each.getKey(), each.getValue().getAsString()));
        }
        if (asked.has("message_group")) {
            builder.setMessageGroup(asked.get("message_group").getAsString());
        }
        if (asked.has("lite_topic")) {
            builder.setLiteTopic(asked.get("lite_topic").getAsString());
        }
        if (asked.has("delay_s")) {
            builder.setDeliveryTimestamp(System.currentTimeMillis() + asked.get("delay_s").getAsLong() * 1_000L);
        }
        return builder.build();
    }

    String recall(JsonObject asked) throws Exception {
        String topic = asked.get("topic").getAsString();
        return producer.recallMessage(topic, asked.get("handle").getAsString()).getMessageId().toString();
    }

    void stop() throws Exception {
        producer.close();
    }
}
