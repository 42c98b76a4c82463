package reput.clients;

import static reput.clients.Words.is;
import static reput.clients.Words.text;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * A push consumer. It refuses bodies that begin with {@code fail}, and those that begin with
 * {@code once} when they come for the first time. Options: group, topic, expression, sql, orderly,
 * broadcast, start ("first" or "last"), instance, max_reconsume, namespace, trace, replies,
 * broker_shares, access_key, secret_key.
 */
final class Listening extends Taking {
    private final DefaultMQPushConsumer consumer;
    private final DefaultMQProducer replies;

    Listening(String nameServer, Map<String, Object> asked) throws Exception {
        consumer = new DefaultMQPushConsumer(
            text(asked, "namespace", null), text(asked, "group", ""), Words.signing(asked),
            new AllocateMessageQueueAveragely(), is(asked, "trace"), null);
        consumer.setNamesrvAddr(nameServer);
        consumer.setInstanceName(text(asked, "instance", "DEFAULT"));
        // What the listener has answered is counted before offsets are told for the last time.
        consumer.setAwaitTerminationMillisWhenShutdown(10_000);
        boolean first = text(asked, "start", "first").equals("first");
        consumer.setConsumeFromWhere(
            first ? ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET : ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET);
        if (asked.containsKey("max_reconsume")) {
            consumer.setMaxReconsumeTimes(Words.number(asked, "max_reconsume"));
        }
        if (is(asked, "broadcast")) {
            broadcast();
        }
        if (is(asked, "broker_shares")) {
            // Since 5.0 only, so not known when this is compiled for 4.9.
            DefaultMQPushConsumer.class.getMethod("setClientRebalance", boolean.class).invoke(consumer, false);
        }
        String topic = text(asked, "topic", "");
        if (asked.containsKey("sql")) {
            consumer.subscribe(topic, MessageSelector.bySql(text(asked, "sql", "")));
        } else {
            consumer.subscribe(topic, text(asked, "expression", "*"));
        }
        if (is(asked, "orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) ->
                take(messages) ? ConsumeOrderlyStatus.SUCCESS : ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT);
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) ->
                take(messages) ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS : ConsumeConcurrentlyStatus.RECONSUME_LATER);
        }
        replies = is(asked, "replies") ? new DefaultMQProducer(text(asked, "group", "") + "-replies") : null;
        if (replies != null) {
            replies.setNamesrvAddr(nameServer);
            replies.setInstanceName(text(asked, "instance", "DEFAULT"));
            replies.start();
        }
        consumer.start();
    }

    /** Its type has another package in 5.0 than in 4.9. */
    private void broadcast() throws ReflectiveOperationException {
        Class<?> type = DefaultMQPushConsumer.class.getMethod("getMessageModel").getReturnType();
        Object wanted = type.getField("BROADCASTING").get(null);
        DefaultMQPushConsumer.class.getMethod("setMessageModel", type).invoke(consumer, wanted);
    }

    private boolean take(List<MessageExt> messages) {
        boolean sound = true;
        for (MessageExt each : messages) {
            String body = new String(each.getBody(), StandardCharsets.UTF_8);
            sound &= !body.startsWith("fail") && !(body.startsWith("once") && each.getReconsumeTimes() == 0);
            Map<String, Object> row = Words.row(each);
            if (replies != null) {
                try {
                    replies.send(MessageUtil.createReplyMessage(each, ("re: " + body).getBytes(StandardCharsets.UTF_8)));
                } catch (Exception error) {
                    row.put("error", error.toString());
                }
            }
            add(row);
        }
        return sound;
    }

    @Override
    void stop() {
        consumer.shutdown();
        if (replies != null) {
            replies.shutdown();
        }
    }
}
