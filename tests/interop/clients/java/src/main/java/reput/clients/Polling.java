package reput.clients;

import static reput.clients.Words.is;
import static reput.clients.Words.text;

import java.util.Collection;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * A lite pull consumer, asked over and over by a thread. Options: group, topic, expression, sql,
 * instance; assign: the queues are named by itself, from the offset {@code seek} on where that is named.
 */
final class Polling extends Taking {
    private final DefaultLitePullConsumer consumer;
    private final Thread thread = new Thread(this::poll);
    private volatile boolean ended;

    Polling(String nameServer, Map<String, Object> asked) throws Exception {
        consumer = new DefaultLitePullConsumer(text(asked, "namespace", null), text(asked, "group", ""), Words.signing(asked));
        consumer.setNamesrvAddr(nameServer);
        consumer.setInstanceName(text(asked, "instance", "DEFAULT"));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        String topic = text(asked, "topic", "");
        if (is(asked, "assign")) {
            consumer.start();
            Collection<MessageQueue> queues = consumer.fetchMessageQueues(topic);
            consumer.assign(queues);
            for (MessageQueue each : queues) {
                if (asked.containsKey("seek")) {
                    consumer.seek(each, Words.number(asked, "seek"));
                }
            }
        } else {
            if (asked.containsKey("sql")) {
                consumer.subscribe(topic, MessageSelector.bySql(text(asked, "sql", "")));
            } else {
                consumer.subscribe(topic, text(asked, "expression", "*"));
            }
            consumer.start();
        }
        thread.start();
    }

    private void poll() {
        while (!ended) {
            for (MessageExt each : consumer.poll(200)) {
                add(Words.row(each));
            }
        }
    }

    @Override
    void stop() {
        ended = true;
        try {
            thread.join();
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
        consumer.commitSync();
        consumer.shutdown();
    }
}
