package reput.load5;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageView;

/** Threads that share one consumer: each receives a batch, and acknowledges it message by message. */
final class Takers {
    private static final Duration INVISIBLE = Duration.ofMinutes(5);
    private static final Duration LONGEST = Duration.ofMinutes(2);

    private Takers() {}

    /** Values: endpoints, topic, group, threads, count of messages. */
    static String take(String[] values) throws Exception {
        long count = Long.parseLong(values[4]);
        AtomicLong acknowledged = new AtomicLong();
        AtomicLong failed = new AtomicLong();
        AtomicLong ended = new AtomicLong();
        List<Times> times = new ArrayList<>();
        List<Thread> threads = new ArrayList<>();
        try (SimpleConsumer consumer = consumer(values[0], values[1], values[2])) {
            long began = System.nanoTime();
            long last = began + LONGEST.toNanos();
            for (int at = Integer.parseInt(values[3]); at > 0; at--) {
                Times own = new Times();
                times.add(own);
                threads.add(new Thread(() -> {
                    while (ended.get() == 0 && System.nanoTime() < last) {
                        try {
                            for (MessageView each : consumer.receive(32, INVISIBLE)) {
                                long before = System.nanoTime();
                                consumer.ack(each);
                                long now = System.nanoTime();
                                own.add(now - before);
                                if (acknowledged.incrementAndGet() == count) {
                                    ended.set(now);
                                }
                            }
                        } catch (Exception error) {
                            failed.incrementAndGet();
                        }
                    }
                }));
            }
            threads.forEach(Thread::start);
            for (Thread each : threads) {
                each.join();
            }
            if (ended.get() == 0) {
                throw new IllegalStateException("only " + acknowledged + " of " + count);
            }
            long[] found = Times.together(times);
            return Load.row(
                    "ack", acknowledged.get(), count, failed.get(), ended.get() - began, found);
        }
    }

    static SimpleConsumer consumer(String endpoints, String topic, String group) throws Exception {
        return ClientServiceProvider.loadService().newSimpleConsumerBuilder()
                .setClientConfiguration(Load.configuration(endpoints))
                .setConsumerGroup(group)
                .setAwaitDuration(Duration.ofSeconds(6))
                .setSubscriptionExpressions(Map.of(topic, FilterExpression.SUB_ALL))
                .build();
    }
}
