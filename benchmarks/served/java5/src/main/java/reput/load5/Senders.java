package reput.load5;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.producer.Producer;

/** Threads that share one producer, each sending the next message when the last is answered. */
final class Senders {
    private static final Map<String, Producer> PRODUCERS = new HashMap<>();

    private Senders() {}

    /** Values: endpoints, topic, threads, size of bodies, ms to warm up, ms to measure. */
    static String send(String[] values) throws Exception {
        Producer producer = producer(values[0], values[1]);
        Message message = message(values[1], Integer.parseInt(values[3]));
        long measuredFrom = System.nanoTime() + Long.parseLong(values[4]) * 1_000_000;
        long end = measuredFrom + Long.parseLong(values[5]) * 1_000_000;
        AtomicLong all = new AtomicLong();
        AtomicLong failed = new AtomicLong();
        List<Times> times = new ArrayList<>();
        List<Thread> threads = new ArrayList<>();
        for (int at = Integer.parseInt(values[2]); at > 0; at--) {
            Times own = new Times();
            times.add(own);
            threads.add(new Thread(() -> {
                for (long began = System.nanoTime(); began < end; ) {
                    boolean isStored = isStored(producer, message);
                    long now = System.nanoTime();
                    all.incrementAndGet();
                    if (!isStored) {
                        failed.incrementAndGet();
                    } else if (began >= measuredFrom && now <= end) {
                        own.add(now - began);
                    }
                    began = now;
                }
            }));
        }
        threads.forEach(Thread::start);
        for (Thread each : threads) {
            each.join();
        }
        long[] found = Times.together(times);
        return Load.row("send", all.get(), found.length, failed.get(), end - measuredFrom, found);
    }

    static Message message(String topic, int size) {
        return ClientServiceProvider.loadService().newMessageBuilder()
                .setTopic(topic).setTag("tag").setBody(new byte[size]).build();
    }

    private static boolean isStored(Producer producer, Message message) {
        try {
            producer.send(message);
            return true;
        } catch (Exception error) {
            return false;
        }
    }

    private static Producer producer(String endpoints, String topic) throws Exception {
        Producer producer = PRODUCERS.get(endpoints);
        if (producer == null) {
            producer = ClientServiceProvider.loadService().newProducerBuilder()
                    .setClientConfiguration(Load.configuration(endpoints)).setTopics(topic).build();
            PRODUCERS.put(endpoints, producer);
        }
        return producer;
    }
}
