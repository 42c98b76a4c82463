package reput.load;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.LongStream;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;

/** Threads that share one producer, each sending the next message when the last is answered. */
final class Senders implements Runnable {
    private static final Map<String, DefaultMQProducer> PRODUCERS = new HashMap<>();

    private final DefaultMQProducer producer;
    private final String topic;
    private final byte[] body;
    private final long measuredFrom;
    private final long end;
    private long[] times = new long[1 << 12];
    private int count;
    private long all;
    private long failed;

    private Senders(
            DefaultMQProducer producer, String topic, int size, long measuredFrom, long end) {
        this.producer = producer;
        this.topic = topic;
        this.body = new byte[size];
        Arrays.fill(body, (byte) 'x');
        this.measuredFrom = measuredFrom;
        this.end = end;
    }

    /** Values: name server, topic, threads, size of bodies, ms to warm up, ms to measure. */
    static String send(String[] values) throws Exception {
        DefaultMQProducer producer = producer(values[0]);
        long began = System.nanoTime();
        long measuredFrom = began + Long.parseLong(values[4]) * 1_000_000;
        long end = measuredFrom + Long.parseLong(values[5]) * 1_000_000;
        List<Senders> senders = new ArrayList<>();
        List<Thread> threads = new ArrayList<>();
        for (int at = Integer.parseInt(values[2]); at > 0; at--) {
            Senders each = new Senders(
                    producer, values[1], Integer.parseInt(values[3]), measuredFrom, end);
            senders.add(each);
            threads.add(new Thread(each));
        }
        threads.forEach(Thread::start);
        for (Thread each : threads) {
            each.join();
        }
        long all = senders.stream().mapToLong(each -> each.all).sum();
        long failed = senders.stream().mapToLong(each -> each.failed).sum();
        long[] times = senders.stream()
                .flatMapToLong(each -> LongStream.of(each.times).limit(each.count))
                .toArray();
        return Load.row(all, times.length, failed, end - measuredFrom, times);
    }

    static synchronized DefaultMQProducer producer(String nameServer) throws Exception {
        DefaultMQProducer producer = PRODUCERS.get(nameServer);
        if (producer == null) {
            producer = new DefaultMQProducer("load");
            producer.setInstanceName("load-" + PRODUCERS.size());
            producer.setNamesrvAddr(nameServer);
            producer.setCompressMsgBodyOverHowmuch(1 << 22);
            producer.setSendMsgTimeout(30_000);
            producer.start();
            PRODUCERS.put(nameServer, producer);
        }
        return producer;
    }

    @Override
    public void run() {
        for (long began = System.nanoTime(); began < end; ) {
            boolean isStored;
            try {
                isStored = producer.send(new Message(topic, "tag", body)).getSendStatus()
                        == SendStatus.SEND_OK;
            } catch (Exception error) {
                isStored = false;
            }
            long now = System.nanoTime();
            all++;
            if (!isStored) {
                failed++;
            } else if (began >= measuredFrom && now <= end) {
                if (count == times.length) {
                    times = Arrays.copyOf(times, 2 * count);
                }
                times[count++] = now - began;
            }
            began = now;
        }
    }
}
