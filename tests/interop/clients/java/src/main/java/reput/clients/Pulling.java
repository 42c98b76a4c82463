package reput.clients;

import static reput.clients.Words.text;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** The pull consumer of old, which asks queue by queue and keeps its offsets itself. */
final class Pulling {
    private Pulling() {
    }

    /** All that a group has not taken; it has then. Options: group, topic, expression. */
    static List<Map<String, Object>> all(String nameServer, Map<String, Object> asked) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(null, text(asked, "group", ""), Words.signing(asked));
        consumer.setNamesrvAddr(nameServer);
        consumer.setInstanceName(text(asked, "instance", "DEFAULT"));
        consumer.start();
        try {
            List<Map<String, Object>> taken = new ArrayList<>();
            for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(text(asked, "topic", ""))) {
                long next = Math.max(consumer.fetchConsumeOffset(queue, true), consumer.minOffset(queue));
                while (next < consumer.maxOffset(queue)) {
                    PullResult found = consumer.pull(queue, text(asked, "expression", "*"), next, 8);
                    if (found.getPullStatus() == PullStatus.FOUND) {
                        for (MessageExt each : found.getMsgFoundList()) {
                            taken.add(Words.row(each));
                        }
                    }
                    next = found.getNextBeginOffset();
                }
                consumer.updateConsumeOffset(queue, next);
                consumer.getOffsetStore().persist(queue);
            }
            return taken;
        } finally {
            consumer.shutdown();
        }
    }
}
