package reput.broker;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;

/**
 * Producers that send as fast as the broker takes it. The body of a message is its number and the
 * size of its property {@code big}; its property {@code last} is the number again. One message in
 * sixteen has properties of 28 KB.
 */
final class Load {
    private static final int EVERY = 16;
    private static final int LARGE = 28_000;
    private static final int SENDERS = 4;

    private final AtomicInteger taken = new AtomicInteger();
    private final AtomicInteger sent = new AtomicInteger();
    private final AtomicReference<Throwable> failure = new AtomicReference<>();
    private final List<Thread> senders = new ArrayList<>();
    private final List<DefaultMQProducer> producers = new ArrayList<>();
    private final String topic;
    private final int count;

    Load(String nameServer, String topic, int count, int producers) throws Exception {
        this.topic = topic;
        this.count = count;
        for (int at = 0; at < producers; at++) {
            DefaultMQProducer producer = new DefaultMQProducer("reput-load-" + at, Peer.hook());
            producer.setInstanceName("reput-load-" + at);
            producer.setNamesrvAddr(nameServer);
            producer.setSendMsgTimeout(30_000);
            producer.start();
            this.producers.add(producer);
            for (int sender = 0; sender < SENDERS; sender++) {
                Thread thread = new Thread(() -> send(producer));
                senders.add(thread);
                thread.start();
            }
        }
    }

    /** How many messages the broker has taken; waits for all of them, but not longer than this. */
    int sent(long milliseconds) throws Exception {
        long end = System.currentTimeMillis() + milliseconds;
        for (Thread each : senders) {
            each.join(Math.max(end - System.currentTimeMillis(), 1));
        }
        if (failure.get() != null) {
            throw new IllegalStateException(failure.get());
        }
        if (sent.get() == count) {
            producers.forEach(DefaultMQProducer::shutdown);
        }
        return sent.get();
    }

    private void send(DefaultMQProducer producer) {
        String large = "x".repeat(LARGE);
        try {
            for (int number = taken.getAndIncrement(); number < count; number = taken.getAndIncrement()) {
                int size = number % EVERY == 0 ? LARGE - number % 1_000 : number % 100 + 1;
                byte[] body = (number + " " + size).getBytes(StandardCharsets.UTF_8);
                Message message = new Message(topic, body);
                MessageAccessor.putProperty(message, "big", large.substring(0, size));
                MessageAccessor.putProperty(message, "last", Integer.toString(number));
                producer.send(message);
                sent.incrementAndGet();
            }
        } catch (Throwable error) {
            failure.compareAndSet(null, error);
        }
    }
}
