package reput.interop;

import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import java.util.zip.CRC32;
import org.apache.rocketmq.common.message.*; // MessageExtBrokerInner is here in 5.x
import org.apache.rocketmq.store.*; // and here in 4.9

/**
 * What {@code python -m benchmarks --java} measures beside reput, as the cases in
 * {@code benchmarks/java/cases.py} do it; {@code --index} goes with each. {@code --passes N}, to warm
 * up: N times as many messages are put, or the same is derived or read N times.
 *
 * <ul>
 *   <li>{@code put STORE --count N --body B}: messages made beforehand, whose properties are encoded
 *       in the loop: {@code put} until the last put returned, {@code readable} until all is dispatched;
 *   <li>{@code batch STORE --count N --body B --batch-size S}: the same with batches, {@code put-many};
 *   <li>{@code sync STORE --count N --body B --threads T --sync}: {@code put-sync}, threads that each
 *       put one message at a time and wait until it is on disk;
 *   <li>{@code derive STORE --count N}: {@code derive}, queues (and index) of a log of N messages
 *       that is there, with the store open and idle: the reput loop alone;
 *   <li>{@code read STORE --count N --body B --batches S,S}: {@code read-S}, each message decoded as
 *       a consumer does it; {@code bodies-S}, the bodies taken out after the checks that every read
 *       of reput makes; and {@code unchecked-S}, nothing but the bodies taken out;
 *   <li>{@code reopen STORE --count N}: {@code open}, from before {@code load()} until all is dispatched;
 *   <li>{@code idle STORE --count N --body B --milliseconds M}: {@code idle}, with nothing put;
 *   <li>{@code die STORE --count N --body B}, a command of its own: puts, and ends without closing
 *       when all is dispatched.
 * </ul>
 */
final class Work {
    private static final int RING = 100_000; // messages made beforehand, put again and again
    private static final int BODIES = 8192; // different ones
    private static final int BATCHES_MADE = 100;
    private static final int BODY_POSITION = 84; // of the body's length, in a record with IPv4 hosts
    private static final int MAGIC = -626843481;

    /** What is done with a record that is read. */
    private interface Taking {
        byte[] body(ByteBuffer record, byte[] topic, int queueId, long queueOffset, long physicalOffset);
    }

    private final Main options;
    private final Path directory;
    private final int passes;
    private final int count; // of messages in the store at last
    private final int bodySize;
    private final AtomicLong refused = new AtomicLong();

    Work(Main options) {
        this.options = options;
        this.directory = Path.of(options.operand(1));
        this.passes = options.number("passes", 1);
        boolean puts = List.of("put", "batch").contains(options.operand(0));
        this.count = options.number("count", 0) * (puts ? passes : 1);
        this.bodySize = options.number("body", 0);
    }

    void run() throws Exception {
        System.gc(); // unmaps the files of the last work
        switch (options.operand(0)) {
            case "put": put(); break;
            case "batch": batch(); break;
            case "sync": sync(); break;
            case "derive": derive(); break;
            case "read": read(); break;
            case "reopen": reopen(); break;
            case "idle": idle(); break;
            default: throw new IllegalArgumentException("no such work: " + options.operand(0));
        }
        if (refused.get() > 0) {
            System.out.println(Json.text(Json.row("refused", "count", refused.get())));
        }
    }

    static void die(Main options) throws Exception {
        Work work = new Work(options);
        DefaultMessageStore store = work.open();
        List<MessageExtBrokerInner> ring = work.ring();
        for (int i = 0; i < work.count; i++) {
            work.putOne(store, ring.get(i % ring.size()));
        }
        // 4.9 refuses to load a store that was killed while one of its files was being made.
        Stores.awaitDispatched(store);
        Runtime.getRuntime().halt(Main.KILLED);
    }

    private void put() throws Exception {
        DefaultMessageStore store = open();
        List<MessageExtBrokerInner> ring = ring();
        System.gc();
        Stopwatch watch = new Stopwatch();
        for (int i = 0; i < count; i++) {
            putOne(store, ring.get(i % ring.size()));
        }
        watch.tell("put");
        close(store, watch, "readable");
    }

    private void batch() throws Exception {
        DefaultMessageStore store = open();
        int size = options.number("batch-size", 1000);
        Messages messages = new Messages(bodySize, BODIES);
        List<List<Message>> made = new ArrayList<>();
        for (int i = 0; i < BATCHES_MADE; i++) {
            made.add(messages.several(i * size, size));
        }
        System.gc();
        Stopwatch watch = new Stopwatch();
        for (int i = 0; i < count / size; i++) {
            MessageExtBatch batch = messages.batch(made.get(i % BATCHES_MADE), i);
            while (!store.putMessages(batch).isOk()) {
                refused.incrementAndGet();
                batch = messages.batch(made.get(i % BATCHES_MADE), i); // a put changes it
            }
        }
        watch.tell("put-many");
        close(store, watch, "readable");
    }

    private void sync() throws Exception {
        DefaultMessageStore store = open();
        Messages messages = new Messages(bodySize, BODIES);
        int threads = options.number("threads", 1);
        int each = count / threads;
        CountDownLatch ready = new CountDownLatch(threads);
        CountDownLatch start = new CountDownLatch(1);
        AtomicLong done = new AtomicLong();
        List<Thread> producers = new ArrayList<>();
        for (int thread = 0; thread < threads; thread++) {
            List<MessageExtBrokerInner> share = new ArrayList<>();
            for (int i = 0; i < each; i++) {
                share.add(messages.single(thread * each + i));
            }
            producers.add(new Thread(() -> {
                ready.countDown();
                await(start);
                for (MessageExtBrokerInner message : share) {
                    Messages.encode(message);
                    if (store.putMessage(message).getPutMessageStatus() == PutMessageStatus.PUT_OK) {
                        done.incrementAndGet();
                    }
                }
            }));
        }
        producers.forEach(Thread::start);
        ready.await();
        System.gc();
        Stopwatch watch = new Stopwatch();
        start.countDown();
        for (Thread producer : producers) {
            producer.join();
        }
        watch.tell("put-sync");
        expect(done.get(), "puts that are on disk");
        close(store, watch, "readable");
    }

    private void derive() throws Exception {
        DefaultMessageStore store = open();
        for (int pass = 0; pass < passes; pass++) {
            Stores.forgetDerived(store);
            System.gc();
            Stopwatch watch = new Stopwatch();
            Stores.reputFromStart(store);
            Stores.awaitDispatched(store);
            watch.tell("derive");
            Stores.expectInQueues(store, count);
        }
        Stores.closeAtOnce(store);
    }

    private void read() throws Exception {
        DefaultMessageStore store = open();
        Messages messages = new Messages(bodySize, BODIES);
        for (int at = 0, size = 1000; at < count; at += size) {
            for (MessageExtBrokerInner message : singles(messages, at, Math.min(size, count - at))) {
                putOne(store, message);
            }
        }
        Stores.awaitDispatched(store);
        for (int pass = 0; pass < passes; pass++) {
            for (String batch : options.text("batches", "32").split(",")) {
                int size = Integer.parseInt(batch);
                measureRead(store, size, "read-" + batch,
                    (record, topic, id, at, offset) -> MessageDecoder.decode(record, true, false).getBody());
                measureRead(store, size, "bodies-" + batch, Work::checkedBody);
                measureRead(store, size, "unchecked-" + batch, (record, topic, id, at, offset) -> body(record));
            }
        }
        Stores.closeAtOnce(store);
    }

    private void measureRead(DefaultMessageStore store, int batch, String kind, Taking taking) {
        System.gc();
        Stopwatch watch = new Stopwatch();
        long found = readAll(store, batch, taking);
        watch.tell(kind);
        expect(found, "messages read");
    }

    private long readAll(DefaultMessageStore store, int batch, Taking taking) {
        long found = 0;
        for (int queue = 0; queue < Messages.TOPICS * Messages.QUEUES; queue++) {
            String topic = Messages.topic(queue / Messages.QUEUES);
            byte[] name = topic.getBytes(StandardCharsets.UTF_8);
            int id = queue % Messages.QUEUES;
            for (long at = 0;;) {
                GetMessageResult result = store.getMessage("bench", topic, id, at, batch, null);
                if (result == null || result.getStatus() != GetMessageStatus.FOUND) {
                    break;
                }
                List<ByteBuffer> records = result.getMessageBufferList();
                for (int i = 0; i < records.size(); i++) {
                    long offset = result.getMessageMapedList().get(i).getStartOffset();
                    byte[] body = taking.body(records.get(i), name, id, at + i, offset);
                    found += body.length == bodySize ? 1 : 0;
                }
                at = result.getNextBeginOffset();
                result.release();
            }
        }
        return found;
    }

    private static byte[] body(ByteBuffer record) {
        record.position(record.position() + BODY_POSITION);
        byte[] body = new byte[record.getInt()];
        record.get(body);
        return body;
    }

    /** The body of a record that states its place in log and queue, and matches its checksum. */
    private static byte[] checkedBody(
        ByteBuffer record, byte[] topic, int queueId, long queueOffset, long physicalOffset) {
        int start = record.position();
        int size = record.remaining();
        boolean isListed = record.getInt(start) == size && record.getInt(start + 4) == MAGIC
            && record.getInt(start + 12) == queueId && record.getLong(start + 20) == queueOffset
            && record.getLong(start + 28) == physicalOffset;
        byte[] body = body(record);
        CRC32 crc = new CRC32();
        crc.update(body);
        byte[] name = new byte[record.get()];
        record.get(name);
        boolean isWhole = record.getShort() == record.remaining();
        boolean isSound = ((int) crc.getValue() & Integer.MAX_VALUE) == record.getInt(start + 8);
        if (!isListed || !isWhole || !isSound || !Arrays.equals(name, topic)) {
            throw new IllegalStateException("no record of the queue at " + physicalOffset);
        }
        return body;
    }

    private void reopen() throws Exception {
        AtomicLong ended = new AtomicLong();
        Stopwatch watch = new Stopwatch();
        DefaultMessageStore store = Stores.openUntilDispatched(Stores.config(directory, options), ended);
        watch.tell("open", ended.get());
        Stores.expectInQueues(store, count);
        Stores.closeAtOnce(store);
    }

    private void idle() throws Exception {
        DefaultMessageStore store = open();
        for (MessageExtBrokerInner message : singles(new Messages(bodySize, BODIES), 0, count)) {
            putOne(store, message);
        }
        Stores.awaitDispatched(store);
        store.flush();
        Thread.sleep(500);
        Stopwatch watch = new Stopwatch();
        Thread.sleep(options.number("milliseconds", 5000));
        watch.tell("idle");
        Stores.closeAtOnce(store);
    }

    private DefaultMessageStore open() throws Exception {
        return Stores.open(Stores.config(directory, options));
    }

    /** Waits for the reput loop, tells until when it took since {@code watch} began, and closes. */
    private void close(DefaultMessageStore store, Stopwatch watch, String kind) throws Exception {
        Stores.awaitDispatched(store);
        watch.tell(kind);
        Stores.expectInQueues(store, count);
        Stores.closeAtOnce(store);
    }

    private List<MessageExtBrokerInner> ring() throws Exception {
        return singles(new Messages(bodySize, BODIES), 0, Math.min(count, RING));
    }

    private static List<MessageExtBrokerInner> singles(Messages messages, int from, int count) {
        List<MessageExtBrokerInner> made = new ArrayList<>(count);
        for (int i = from; i < from + count; i++) {
            made.add(messages.single(i));
        }
        return made;
    }

    private void putOne(DefaultMessageStore store, MessageExtBrokerInner message) {
        message.setBornTimestamp(System.currentTimeMillis());
        Messages.encode(message);
        while (!store.putMessage(message).isOk()) {
            refused.incrementAndGet(); // page cache busy: again, as a client would
        }
    }

    private void expect(long found, String what) {
        if (found != count) {
            throw new IllegalStateException(found + " " + what + " instead of " + count);
        }
    }

    private static void await(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Seconds, and processor time of the whole process, since it was made. */
    private final class Stopwatch {
        private final com.sun.management.OperatingSystemMXBean system =
            (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        private final long cpu = system.getProcessCpuTime();
        private final long began = System.nanoTime();

        void tell(String kind) {
            tell(kind, System.nanoTime());
        }

        void tell(String kind, long ended) {
            System.out.println(Json.text(Json.row(kind, "count", count, "seconds", (ended - began) / 1e9,
                "cpu_seconds", (system.getProcessCpuTime() - cpu) / 1e9)));
        }
    }
}
