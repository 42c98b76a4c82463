package reput.interop;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.rocketmq.common.message.*;
import org.apache.rocketmq.store.*;
import org.apache.rocketmq.store.config.MessageStoreConfig;

/**
 * {@code bench STORE --count N --body B [--threads 1] [--mode put|batch] [--batch-size 50] [--index]
 * [--rounds 5] [--warmup 500000]}: messages per second, one JSON row to stdout for each measurement
 * and a {@code summary} row (best and median of the rounds) for each kind. STORE is deleted.
 *
 * <ul>
 *   <li>{@code make}: building the message objects and their properties alone, without a store;
 *   <li>{@code put}: the same and putting them, asynchronous flush, until the last put returned; the
 *       reput loop runs beside it, as in a broker;
 *   <li>{@code dispatched}: the same, until the reput loop has caught up;
 *   <li>{@code reput}: with the store open and idle, the consume queues (and the index) are destroyed
 *       and the reput offset is set to the log's start: the reput loop alone, log in the page cache;
 *   <li>{@code reopen}: {@code consumequeue/} and {@code index/} are deleted while the store is
 *       closed; from before {@code load()} until all is dispatched. 5.x derives them in recovery, where
 *       it checks every body's CRC too; 4.9 in the reput loop.
 * </ul>
 */
final class Bench {
    private static final int TOPICS = 8;
    private static final int QUEUES = 4;

    private final Path directory;
    private final MessageStoreConfig config;
    private final int count;
    private final int threads;
    private final int batchSize; // 0: one at a time
    private final byte[] body;
    private final InetSocketAddress bornHost;
    private final InetSocketAddress storeHost;
    private final Map<String, List<Double>> rates = new LinkedHashMap<>();
    private final AtomicLong refused = new AtomicLong();
    private boolean warm;

    private Bench(Main options, int count) throws Exception {
        this.directory = Path.of(options.operand(1));
        this.config = Stores.config(directory, options);
        this.count = count;
        this.threads = options.number("threads", 1);
        this.batchSize = options.text("mode", "put").equals("batch") ? options.number("batch-size", 50) : 0;
        this.body = new byte[options.number("body", 100)];
        new Random(1).nextBytes(body);
        this.bornHost = new InetSocketAddress(InetAddress.getByName("10.1.2.3"), 40_000);
        this.storeHost = new InetSocketAddress(InetAddress.getByName("192.168.0.7"), 10_911);
    }

    static void run(Main options) throws Exception {
        int warmup = options.number("warmup", 500_000);
        if (warmup > 0) {
            new Bench(options, warmup).round();
        }
        Bench bench = new Bench(options, options.number("count", 1_000_000));
        bench.warm = true;
        for (int i = 0; i < options.number("rounds", 5); i++) {
            bench.round();
        }
        for (Map.Entry<String, List<Double>> entry : bench.rates.entrySet()) {
            double[] sorted = entry.getValue().stream().mapToDouble(Double::doubleValue).sorted().toArray();
            print(Json.row("summary", "of", entry.getKey(), "mode", options.text("mode", "put"), "count",
                bench.count, "body", bench.body.length, "index", options.has("index"), "best",
                Math.round(sorted[sorted.length - 1]), "median", Math.round(sorted[sorted.length / 2]),
                "rounds", sorted.length));
        }
        delete(bench.directory);
    }

    private void round() throws Exception {
        delete(directory);
        System.gc(); // unmaps the files of the last round
        measured("make", timed(this::makeAll));

        DefaultMessageStore store = Stores.open(config);
        long began = System.nanoTime();
        putAll(store);
        measured("put", System.nanoTime() - began);
        Stores.awaitDispatched(store);
        measured("dispatched", System.nanoTime() - began);
        for (int i = 0; i < 3; i++) {
            Stores.forgetDerived(store);
            began = System.nanoTime();
            Stores.reputFromStart(store);
            Stores.awaitDispatched(store);
            measured("reput", System.nanoTime() - began);
        }
        expectAllThere(store);
        store.shutdown();

        delete(directory.resolve("consumequeue"));
        delete(directory.resolve("index"));
        System.gc();
        measured("reopen", reopen());
        if (refused.get() > 0) {
            print(Json.row("refused", "count", refused.getAndSet(0)));
        }
    }

    private long reopen() throws Exception {
        long began = System.nanoTime();
        DefaultMessageStore store = Stores.create(config);
        if (!store.load()) {
            throw new IllegalStateException("load() refused " + directory);
        }
        // start() of 4.9 looks every second only whether it has caught up, so look from beside it.
        AtomicLong ended = new AtomicLong();
        Thread watcher = new Thread(() -> {
            try {
                Stores.awaitDispatched(store);
                ended.set(System.nanoTime());
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        });
        watcher.start();
        store.start();
        watcher.join();
        expectAllThere(store);
        store.shutdown();
        return ended.get() - began;
    }

    private void expectAllThere(DefaultMessageStore store) throws Exception {
        long total = 0;
        for (int topic = 0; topic < TOPICS; topic++) {
            for (int queue = 0; queue < QUEUES; queue++) {
                total += store.getMaxOffsetInQueue(topicName(topic), queue);
            }
        }
        if (total != count) {
            throw new IllegalStateException(total + " messages in the queues instead of " + count);
        }
    }

    private void putAll(DefaultMessageStore store) throws Exception {
        List<Thread> workers = new ArrayList<>();
        for (int i = 0; i < threads; i++) {
            int from = (int) ((long) count * i / threads);
            int to = (int) ((long) count * (i + 1) / threads);
            Thread worker = new Thread(() -> putRange(store, from, to));
            worker.start();
            workers.add(worker);
        }
        for (Thread worker : workers) {
            worker.join();
        }
    }

    private void putRange(DefaultMessageStore store, int from, int to) {
        for (int i = from; i < to;) {
            int size = Math.min(Math.max(1, batchSize), to - i);
            PutMessageResult result =
                batchSize == 0 ? store.putMessage(single(i)) : store.putMessages(batch(i, size));
            if (result.isOk()) {
                i += size;
            } else {
                refused.incrementAndGet(); // page cache busy: again, as a client would
            }
        }
    }

    private int makeAll() {
        int sum = 0;
        for (int i = 0; i < count; i += Math.max(1, batchSize)) {
            Message message = batchSize == 0 ? single(i) : batch(i, Math.min(batchSize, count - i));
            sum += message.getBody().length;
        }
        return sum;
    }

    private MessageExtBrokerInner single(int i) {
        MessageExtBrokerInner message = new MessageExtBrokerInner();
        address(message, i);
        fill(message, i);
        message.setPropertiesString(MessageDecoder.messageProperties2String(message.getProperties()));
        message.setTagsCode(MessageExtBrokerInner.tagsString2tagsCode(message.getTags()));
        return message;
    }

    private MessageExtBatch batch(int i, int size) {
        MessageExtBatch batch = new MessageExtBatch();
        address(batch, i / batchSize);
        List<Message> messages = new ArrayList<>(size);
        for (int j = 0; j < size; j++) {
            Message message = new Message();
            fill(message, i + j);
            messages.add(message);
        }
        batch.setBody(MessageDecoder.encodeMessages(messages));
        return batch;
    }

    private void address(MessageExt message, int i) {
        message.setTopic(topicName(i % TOPICS));
        message.setQueueId(i / TOPICS % QUEUES);
        message.setBornTimestamp(System.currentTimeMillis());
        message.setBornHost(bornHost);
        message.setStoreHost(storeHost);
    }

    private void fill(Message message, int i) {
        message.setBody(body);
        message.setTags("Tag" + (char) ('A' + (i & 3)));
        message.setKeys("order-" + (10_000_000 + i));
        MessageAccessor.putProperty(message, "UNIQ_KEY", uniqueKey(i));
        message.setWaitStoreMsgOK(true);
    }

    private static String topicName(int topic) {
        return "bench-0" + topic;
    }

    /** 32 hexadecimal digits, the last eight of them counting. */
    private static String uniqueKey(int i) {
        char[] digits = "7F0000010000000002016C5F00000000".toCharArray();
        for (int at = 31; at > 23; at--, i >>>= 4) {
            digits[at] = "0123456789ABCDEF".charAt(i & 15);
        }
        return new String(digits);
    }

    private static long timed(Runnable work) {
        long began = System.nanoTime();
        work.run();
        return System.nanoTime() - began;
    }

    private void measured(String kind, long nanoseconds) {
        if (!warm) {
            return;
        }
        double rate = count * 1e9 / nanoseconds;
        rates.computeIfAbsent(kind, any -> new ArrayList<>()).add(rate);
        print(Json.row(kind, "seconds", nanoseconds / 1e9, "per_second", Math.round(rate)));
    }

    private static void print(Map<String, Object> row) {
        System.out.println(Json.text(row));
    }

    private static void delete(Path folder) throws IOException {
        if (!Files.exists(folder)) {
            return;
        }
        List<Path> paths;
        try (Stream<Path> walk = Files.walk(folder)) {
            paths = walk.sorted(Comparator.reverseOrder()).collect(Collectors.toList());
        }
        for (Path path : paths) {
            Files.delete(path);
        }
    }
}
