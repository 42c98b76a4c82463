package reput.load5;

import java.time.Duration;
import java.util.List;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;

/** The first message through a server that has just started. */
final class First {
    private static final Duration LONGEST = Duration.ofMinutes(1);

    private First() {}

    /** Values: endpoints, topic, group, size of the body. Tries until the message is received. */
    static String message(String[] values) throws Exception {
        long began = System.nanoTime();
        long last = began + LONGEST.toNanos();
        try (Producer producer = sent(values, last);
                SimpleConsumer consumer = Takers.consumer(values[0], values[1], values[2])) {
            while (System.nanoTime() < last) {
                List<MessageView> found = received(consumer);
                if (!found.isEmpty()) {
                    long now = System.nanoTime();
                    consumer.ack(found.get(0));
                    return Load.row("receive", 1, 1, 0, now - began, new long[] {now - began});
                }
            }
        }
        throw new IllegalStateException("nothing was received in time");
    }

    private static List<MessageView> received(SimpleConsumer consumer) {
        try {
            return consumer.receive(1, Duration.ofSeconds(60));
        } catch (Exception error) { // the consumer's settings are not known yet
            return List.of();
        }
    }

    private static Producer sent(String[] values, long last) throws Exception {
        while (true) {
            Producer producer = null;
            try {
                producer = ClientServiceProvider.loadService().newProducerBuilder()
                        .setClientConfiguration(Load.configuration(values[0]))
                        .setTopics(values[1]).build();
                producer.send(Senders.message(values[1], Integer.parseInt(values[3])));
                return producer;
            } catch (Exception error) {
                if (producer != null) {
                    producer.close();
                }
                if (System.nanoTime() > last) {
                    throw error;
                }
            }
        }
    }
}
