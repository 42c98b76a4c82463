package reput.load;

import java.nio.charset.StandardCharsets;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

/** Push consumers: how fast they take what there is, and how soon what has just come. */
final class Consumers {
    private static final long PATIENCE = 60;
    private static int made;

    private Consumers() {}

    /** Values: name server, topic, group, messages to take. Timed from the first to the last. */
    static String consume(String[] values) throws Exception {
        long wanted = Long.parseLong(values[3]);
        AtomicLong taken = new AtomicLong();
        AtomicLong first = new AtomicLong();
        AtomicLong last = new AtomicLong();
        CountDownLatch done = new CountDownLatch(1);
        DefaultMQPushConsumer consumer = started(values, (messages, context) -> {
            first.compareAndSet(0, System.nanoTime());
            if (taken.addAndGet(messages.size()) >= wanted) {
                last.compareAndSet(0, System.nanoTime());
                done.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        boolean isDone = done.await(PATIENCE, TimeUnit.SECONDS);
        consumer.shutdown();
        if (!isDone) {
            throw new IllegalStateException(taken.get() + " of " + wanted + " messages were taken");
        }
        return Load.row(wanted, wanted, 0, last.get() - first.get(), new long[0]);
    }

    /** Values: name server, topic, group, messages, ms between them. Timed from before the send. */
    static String latency(String[] values) throws Exception {
        int count = Integer.parseInt(values[3]);
        long pause = Long.parseLong(values[4]);
        SynchronousQueue<String> handled = new SynchronousQueue<>();
        DefaultMQPushConsumer consumer = started(values, (messages, context) -> {
            for (Message each : messages) {
                try {
                    String text = new String(each.getBody(), StandardCharsets.US_ASCII);
                    handled.offer(text, PATIENCE, TimeUnit.SECONDS);
                } catch (InterruptedException error) {
                    return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        DefaultMQProducer producer = Senders.producer(values[0]);
        long[] times = new long[count];
        long total = 0;
        int warmUps = Math.max(count / 10, 5);
        for (int at = -warmUps; at < count; at++) {
            Thread.sleep(pause);
            String body = values[2] + at;
            long began = System.nanoTime();
            producer.send(new Message(values[1], body.getBytes(StandardCharsets.US_ASCII)));
            while (true) {
                String found = handled.poll(PATIENCE, TimeUnit.SECONDS);
                if (found == null) {
                    throw new IllegalStateException("a message did not come");
                }
                if (found.equals(body)) {
                    break;
                }
            }
            if (at >= 0) {
                times[at] = System.nanoTime() - began;
                total += times[at];
            }
        }
        consumer.shutdown();
        return Load.row(count + warmUps, count, 0, total, times);
    }

    private static DefaultMQPushConsumer started(
            String[] values, MessageListenerConcurrently listener) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(values[2]);
        consumer.setInstanceName("consumer-" + made++);
        consumer.setNamesrvAddr(values[0]);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(values[1], "*");
        consumer.registerMessageListener(listener);
        consumer.start();
        return consumer;
    }
}
