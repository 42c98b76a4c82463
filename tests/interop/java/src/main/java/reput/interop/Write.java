package reput.interop;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.UnknownHostException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import org.apache.rocketmq.common.UtilAll;
import org.apache.rocketmq.common.message.*; // MessageExtBrokerInner is here in 5.x
import org.apache.rocketmq.store.*; // and here in 4.9
import org.apache.rocketmq.store.config.MessageStoreConfig;

/**
 * {@code write STORE OUT --mode plain|batch|v6|v2 --count N [--seed N] [--kill
 * [--undispatched]] [--hold] [--light-queues] [as in dump]}.
 *
 * <p>Puts {@code count} messages and writes a {@code put} row for each with all that was put and what
 * the store answered; for a batch a {@code batch} row before those of its messages. The messages
 * depend on the mode and the seed alone. {@code v2}: half of the topics are too long for a record of
 * version 1 (5.x only). {@code --kill}: the process ends without closing, once all is dispatched;
 * {@code --kill --undispatched}: at once. {@code --hold}: it prints a line and closes the store when
 * its input ends. {@code --light-queues}: most messages are listed in further queues.
 */
final class Write {
    private static final String[] TOPICS = {"orders", "payments", "audit-log_1"};
    private static final String LONG_TOPIC = "%RETRY%" + "g".repeat(123);
    private static final String[] TAGS = {
        null, "", "TagA", "TagB", "a-very-long-tag-name-0123456789-0123456789-0123456789",
        "\u6807\u7b7e\u00e9\ud83d\ude00", "\ud83d\ude00", "polygenelubricants",
    };
    private static final byte[] MAGIC = {
        0, 0, 0, 100, (byte) 0xda, (byte) 0xa3, 0x20, (byte) 0xa7, 1, 2, 0, 0, 0, 8, (byte) 0xcb,
        (byte) 0xd4, 0x31, (byte) 0x94,
    };
    private static final long BORN = 1_700_000_000_000L;

    private final DefaultMessageStore store;
    private final Json out;
    private final String mode;
    private final Random random;
    private boolean lightQueues;
    private int made;

    private Write(DefaultMessageStore store, Json out, String mode, int seed) {
        this.store = store;
        this.out = out;
        this.mode = mode;
        this.random = new Random(seed);
    }

    static void run(Main options) throws Exception {
        MessageStoreConfig config = Stores.config(Path.of(options.operand(1)), options);
        DefaultMessageStore store = Stores.open(config);
        String mode = options.text("mode", "plain");
        int count = options.number("count", 100);
        try (Json out = new Json(Path.of(options.operand(2)))) {
            Write write = new Write(store, out, mode, options.number("seed", 1));
            write.lightQueues = options.has("light-queues");
            while (write.made < count) {
                if (mode.equals("batch")) {
                    write.putBatch(Math.min(1 + write.random.nextInt(8), count - write.made));
                } else {
                    write.put();
                }
            }
            if (!options.has("undispatched")) {
                Stores.awaitDispatched(store);
            }
            out.write(Json.row("log", "min_physical_offset", store.getMinPhyOffset(),
                "max_physical_offset", store.getMaxPhyOffset()));
        }
        if (options.has("kill")) {
            Runtime.getRuntime().halt(Main.KILLED);
        }
        if (options.has("hold")) {
            System.out.println("holding");
            while (System.in.read() >= 0) {
                continue;
            }
        }
        store.shutdown();
    }

    private void put() throws Exception {
        MessageExtBrokerInner message = new MessageExtBrokerInner();
        address(message);
        fill(message);
        message.setPropertiesString(MessageDecoder.messageProperties2String(message.getProperties()));
        message.setTagsCode(MessageExtBrokerInner.tagsString2tagsCode(message.getTags()));
        PutMessageResult result = store.putMessage(message);
        AppendMessageResult appended = checked(result);
        out.write(row(message, message, result.getPutMessageStatus().name(), appended.getMsgId(),
            appended.getLogicsOffset(), appended.getWroteOffset(), appended.getWroteBytes(),
            appended.getStoreTimestamp()));
    }

    private void putBatch(int count) throws Exception {
        MessageExtBatch batch = new MessageExtBatch();
        address(batch);
        if (random.nextBoolean()) {
            MessageAccessor.putProperty(batch, "CLUSTER", "DefaultCluster");
        }
        List<Message> messages = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            Message message = new Message();
            message.setTopic(batch.getTopic());
            fill(message);
            messages.add(message);
        }
        batch.setBody(MessageDecoder.encodeMessages(messages));
        PutMessageResult result = store.putMessages(batch);
        AppendMessageResult appended = checked(result);
        String status = result.getPutMessageStatus().name();
        out.write(Json.row("batch", "status", status, "topic", batch.getTopic(), "queue_id",
            batch.getQueueId(), "count", appended.getMsgNum(), "queue_offset",
            appended.getLogicsOffset(), "physical_offset", appended.getWroteOffset(), "size",
            appended.getWroteBytes(), "msg_id", appended.getMsgId()));
        String[] ids = appended.getMsgId().split(",");
        long end = appended.getWroteOffset() + appended.getWroteBytes();
        for (int i = 0; i < count; i++) {
            long offset = MessageDecoder.decodeMessageId(ids[i]).getOffset();
            long next = i + 1 < count ? MessageDecoder.decodeMessageId(ids[i + 1]).getOffset() : end;
            Message message = messages.get(i);
            if (batch.getProperty("CLUSTER") != null) {
                MessageAccessor.putProperty(message, "CLUSTER", "DefaultCluster");
            }
            out.write(row(message, batch, status, ids[i], appended.getLogicsOffset() + i, offset,
                (int) (next - offset), appended.getStoreTimestamp()));
        }
    }

    /** Where it goes and where it comes from. */
    private void address(MessageExt message) throws UnknownHostException {
        boolean isLong = mode.equals("v2") && random.nextBoolean();
        message.setTopic(isLong ? LONG_TOPIC : TOPICS[random.nextInt(TOPICS.length)]);
        message.setQueueId(random.nextInt(4));
        message.setSysFlag(0);
        message.setBornTimestamp(BORN + 7L * made);
        boolean bornV6 = mode.equals("v6") && random.nextBoolean();
        boolean storeV6 = mode.equals("v6") && random.nextBoolean();
        message.setBornHost(new InetSocketAddress(
            InetAddress.getByName(bornV6 ? "fe80::1234:5678:9abc:def0" : "10.1.2." + random.nextInt(256)),
            40_000 + random.nextInt(1000)));
        message.setStoreHost(new InetSocketAddress(
            InetAddress.getByName(storeV6 ? "2001:db8::42" : "192.168.0.7"), 10_911));
        if (!mode.equals("batch")) {
            message.setReconsumeTimes(random.nextInt(3));
        }
    }

    /** Body, tags, keys, properties and flag. */
    private void fill(Message message) {
        message.setFlag(random.nextInt(4) == 0 ? random.nextInt() : 0);
        message.setBody(body());
        String tags = TAGS[random.nextInt(TAGS.length)];
        if (tags != null) {
            message.setTags(tags);
        }
        List<String> keys = new ArrayList<>();
        for (int i = random.nextInt(4); i > 0; i--) {
            keys.add(random.nextInt(5) == 0 ? "\u952e-" + random.nextInt(50) : "key-" + random.nextInt(300));
        }
        if (!keys.isEmpty()) {
            message.setKeys(String.join(" ", keys));
        }
        if (random.nextInt(4) != 0) {
            MessageAccessor.putProperty(message, "UNIQ_KEY", String.format("7F00000100002A9F%016X", made));
        }
        if (random.nextInt(3) == 0) {
            message.putUserProperty("price", Integer.toString(random.nextInt(1000)));
        }
        if (random.nextInt(6) == 0) {
            message.putUserProperty("\u8272", "\u7ea2 \ud83d\ude80 red");
        }
        if (lightQueues) {
            List<String> names = new ArrayList<>();
            for (int i = random.nextInt(4); i > 0; i--) {
                names.add("%LMQ%" + "light-" + i);
            }
            if (!names.isEmpty()) {
                MessageAccessor.putProperty(message, "INNER_MULTI_DISPATCH", String.join(",", names));
            }
        }
        made++;
    }

    private byte[] body() {
        byte[] body = new byte[random.nextInt(8) == 0 ? 0 : random.nextInt(random.nextInt(10) == 0 ? 3001 : 300)];
        int kind = random.nextInt(5);
        if (kind == 0) {
            return "\u4f60\u597d, {\"a\":1}\n".repeat(body.length / 20).getBytes(StandardCharsets.UTF_8);
        }
        random.nextBytes(body);
        if (kind == 1 && body.length >= MAGIC.length) {
            int at = random.nextInt(body.length - MAGIC.length + 1);
            System.arraycopy(MAGIC, 0, body, at, MAGIC.length);
        }
        return body;
    }

    private static AppendMessageResult checked(PutMessageResult result) {
        AppendMessageResult appended = result.getAppendMessageResult();
        if (appended == null || !appended.isOk()) {
            throw new IllegalStateException("put refused: " + result);
        }
        return appended;
    }

    private static Map<String, Object> row(Message message, MessageExt envelope, String status,
        String messageId, long queueOffset, long physicalOffset, int size, long storeTimestamp) {
        Map<String, String> properties = new TreeMap<>();
        if (message.getProperties() != null) {
            properties.putAll(message.getProperties());
        }
        properties.values().removeIf(String::isEmpty); // stored, but dropped by every reader
        String tags = message.getTags();
        return Json.row("put", "status", status, "topic", envelope.getTopic(), "queue_id",
            envelope.getQueueId(), "queue_offset", queueOffset, "physical_offset", physicalOffset,
            "size", size, "msg_id", messageId, "store_timestamp", storeTimestamp, "born_timestamp",
            envelope.getBornTimestamp(), "sys_flag", envelope.getSysFlag(), "flag", message.getFlag(),
            "reconsume_times", envelope.getReconsumeTimes(), "body_crc",
            UtilAll.crc32(message.getBody()), "tags", tags, "tags_code",
            MessageExtBrokerInner.tagsString2tagsCode(tags), "properties", properties, "born_host",
            Dump.host(envelope.getBornHost()), "store_host", Dump.host(envelope.getStoreHost()),
            "prepared_transaction_offset", 0, "body", Json.hex(message.getBody()));
    }
}
