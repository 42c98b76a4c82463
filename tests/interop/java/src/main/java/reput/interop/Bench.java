package reput.interop;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
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
    private final Path directory;
    private final MessageStoreConfig config;
    private final int count;
    private final int threads;
    private final int batchSize; // 0: one at a time
    private final int bodySize;
    private final Messages messages;
    private final Map<String, List<Double>> rates = new LinkedHashMap<>();
    private final AtomicLong refused = new AtomicLong();
    private boolean warm;

    private Bench(Main options, int count) throws Exception {
        this.directory = Path.of(options.operand(1));
        this.config = Stores.config(directory, options);
        this.count = count;
        this.threads = options.number("threads", 1);
        this.batchSize = options.text("mode", "put").equals("batch") ? options.number("batch-size", 50) : 0;
        this.bodySize = options.number("body", 100);
        this.messages = new Messages(bodySize, 1);
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
                bench.count, "body", bench.bodySize, "index", options.has("index"), "best",
                Math.round(sorted[sorted.length - 1]), "median", Math.round(sorted[sorted.length / 2]),
                "rounds", sorted.length));
        }
        Stores.delete(bench.directory);
    }

    private void round() throws Exception {
        Stores.delete(directory);
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
        Stores.expectInQueues(store, count);
        store.shutdown();

        Stores.delete(directory.resolve("consumequeue"));
        Stores.delete(directory.resolve("index"));
        System.gc();
        measured("reopen", reopen());
        if (refused.get() > 0) {
            print(Json.row("refused", "count", refused.getAndSet(0)));
        }
    }

    private long reopen() throws Exception {
        AtomicLong ended = new AtomicLong();
        long began = System.nanoTime();
        DefaultMessageStore store = Stores.openUntilDispatched(config, ended);
        Stores.expectInQueues(store, count);
        store.shutdown();
        return ended.get() - began;
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
        MessageExtBrokerInner message = messages.single(i);
        Messages.encode(message);
        return message;
    }

    private MessageExtBatch batch(int i, int size) {
        return messages.batch(messages.several(i, size), i / batchSize);
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
}
