package reput.broker;

import static reput.broker.Peer.text;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * A push consumer and what it was given. Bodies that begin with {@code fail} are refused. Options:
 * group, topic, expression, sql, orderly, start ("first" or "last"), instance, max_reconsume.
 */
final class Listening {
    private final DefaultMQPushConsumer consumer;
    private final List<Map<String, Object>> taken = new ArrayList<>();

    Listening(String nameServer, Map<String, Object> asked) throws Exception {
        consumer = new DefaultMQPushConsumer(text(asked, "group", ""), Peer.hook(), new AllocateMessageQueueAveragely());
        consumer.setNamesrvAddr(nameServer);
        consumer.setInstanceName(text(asked, "instance", "DEFAULT"));
        // What the listener has answered is counted before offsets are told for the last time.
        consumer.setAwaitTerminationMillisWhenShutdown(10_000);
        boolean first = text(asked, "start", "first").equals("first");
        consumer.setConsumeFromWhere(
            first ? ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET : ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET);
        if (asked.containsKey("max_reconsume")) {
            consumer.setMaxReconsumeTimes(Peer.number(asked, "max_reconsume"));
        }
        String topic = text(asked, "topic", "");
        if (asked.containsKey("sql")) {
            consumer.subscribe(topic, MessageSelector.bySql(text(asked, "sql", "")));
        } else {
            consumer.subscribe(topic, text(asked, "expression", "*"));
        }
        if (Boolean.TRUE.equals(asked.get("orderly"))) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) ->
                take(messages) ? ConsumeOrderlyStatus.SUCCESS : ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT);
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) ->
                take(messages) ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS : ConsumeConcurrentlyStatus.RECONSUME_LATER);
        }
        consumer.start();
    }

    private synchronized boolean take(List<MessageExt> messages) {
        boolean sound = true;
        for (MessageExt each : messages) {
            Map<String, Object> row = new LinkedHashMap<>();
            String body = new String(each.getBody(), StandardCharsets.UTF_8);
            row.put("topic", each.getTopic());
            row.put("queue_id", each.getQueueId());
            row.put("queue_offset", each.getQueueOffset());
            row.put("msg_id", each.getMsgId());
            row.put("reconsume_times", each.getReconsumeTimes());
            row.put("body", body);
            row.put("properties", new TreeMap<>(each.getProperties()));
            taken.add(row);
            sound &= !body.startsWith("fail");
        }
        notifyAll();
        return sound;
    }

    /** All that was taken, once there are {@code count} or the time is over. */
    synchronized List<Map<String, Object>> taken(int count, int ms) throws InterruptedException {
        long end = System.nanoTime() + ms * 1_000_000L;
        for (long left = ms; taken.size() < count && left > 0; left = (end - System.nanoTime()) / 1_000_000L) {
            wait(left);
        }
        return new ArrayList<>(taken);
    }

    /** Ends it, with offsets told to the broker. */
    void stop() {
        consumer.shutdown();
    }
}
