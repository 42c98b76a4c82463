package reput.interop;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.store.ConsumeQueueExt;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.GetMessageResult;
import org.apache.rocketmq.store.GetMessageStatus;
import org.apache.rocketmq.store.MessageFilter;
import org.apache.rocketmq.store.QueryMessageResult;

/**
 * {@code dump STORE OUT [--commitlog-size N --cq-units N --index-slots N --index-max N --queries
 * --record-crc --times --extend-size N]}.
 *
 * <p>Opens the store (which recovers it), then writes what getMessage returns: one {@code log} row;
 * for each queue a {@code queue} row, its {@code message} rows, a {@code read} row for each read that
 * found none on the way, and {@code get_status} rows at and beyond both ends. With {@code --queries}
 * a {@code query} row for each key; with {@code --record-crc} recovery checks the CRC of whole records
 * (5.x); with {@code --times} {@code by_time} rows at and around each store time (5.x); with
 * {@code --extend-size} an {@code extend} row for each message: what a filter is asked about.
 */
final class Dump {
    private static final String GROUP = "interop";
    private static final int MAX_COUNT = 32;

    private final DefaultMessageStore store;
    private final Json out;

    private Dump(DefaultMessageStore store, Json out) {
        this.store = store;
        this.out = out;
    }

    static void run(Main options) throws Exception {
        Path directory = Path.of(options.operand(1));
        DefaultMessageStore store = Stores.open(Stores.config(directory, options));
        try (Json out = new Json(Path.of(options.operand(2)))) {
            Dump dump = new Dump(store, out);
            out.write(Json.row("log", "min_physical_offset", store.getMinPhyOffset(),
                "max_physical_offset", store.getMaxPhyOffset()));
            for (Path topic : folders(directory.resolve("consumequeue"))) {
                for (Path queue : folders(topic)) {
                    dump.queue(topic.getFileName().toString(),
                        Integer.parseInt(queue.getFileName().toString()), options);
                }
            }
        }
        store.shutdown();
    }

    private void queue(String topic, int queueId, Main options) throws Exception {
        long min = store.getMinOffsetInQueue(topic, queueId);
        long max = store.getMaxOffsetInQueue(topic, queueId);
        out.write(Json.row("queue", "topic", topic, "queue_id", queueId, "min_offset", min,
            "max_offset", max));
        Set<String> keys = new TreeSet<>();
        Set<Long> times = new TreeSet<>(Set.of(0L));
        for (long offset = min; offset < max;) {
            GetMessageResult result = store.getMessage(GROUP, topic, queueId, offset, MAX_COUNT, null);
            try {
                if (result.getStatus() != GetMessageStatus.FOUND) {
                    out.write(answer("read", topic, queueId, offset, result));
                }
                for (ByteBuffer buffer : result.getMessageBufferList()) {
                    MessageExt message = MessageDecoder.decode(buffer, true, false);
                    out.write(message(message));
                    collectKeys(message, keys);
                    for (int difference = -1; difference <= 1; difference++) {
                        times.add(message.getStoreTimestamp() + difference);
                    }
                }
                if (result.getNextBeginOffset() <= offset) {
                    throw new IllegalStateException("no way past " + topic + " " + queueId + " " + offset);
                }
                offset = result.getNextBeginOffset();
            } finally {
                result.release();
            }
        }
        for (long offset : new long[] {-1, min, max, max + 5}) {
            GetMessageResult result = store.getMessage(GROUP, topic, queueId, offset, MAX_COUNT, null);
            out.write(answer("get_status", topic, queueId, offset, result));
            result.release();
        }
        if (options.has("extend-size")) {
            extendUnits(topic, queueId, min, max);
        }
        if (options.has("queries")) {
            for (String key : keys) {
                query(topic, key);
            }
        }
        if (options.has("times")) {
            for (long time : times) {
                out.write(Json.row("by_time", "topic", topic, "queue_id", queueId, "timestamp", time,
                    "lower", Stores.offsetByTime(store, topic, queueId, time, "LOWER"),
                    "upper", Stores.offsetByTime(store, topic, queueId, time, "UPPER")));
            }
        }
    }

    private void extendUnits(String topic, int queueId, long min, long max) throws Exception {
        List<Map<String, Object>> rows = new ArrayList<>();
        MessageFilter all = new MessageFilter() {
            @Override
            public boolean isMatchedByConsumeQueue(Long tagsCode, ConsumeQueueExt.CqExtUnit unit) {
                byte[] bitMap = unit == null ? null : unit.getFilterBitMap();
                rows.add(Json.row("extend", "topic", topic, "queue_id", queueId, "tags_code", tagsCode,
                    "store_timestamp", unit == null ? -1 : unit.getMsgStoreTime(), "bit_map",
                    bitMap == null ? null : Json.hex(bitMap)));
                return true;
            }

            @Override
            public boolean isMatchedByCommitLog(ByteBuffer message, Map<String, String> properties) {
                return true;
            }
        };
        for (long offset = min; offset < max;) {
            GetMessageResult result = store.getMessage(GROUP, topic, queueId, offset, MAX_COUNT, all);
            offset = Math.max(offset + 1, result.getNextBeginOffset());
            result.release();
        }
        for (Map<String, Object> row : rows) {
            out.write(row);
        }
    }

    private void query(String topic, String key) throws Exception {
        QueryMessageResult result = store.queryMessage(topic, key, 64, 0, Long.MAX_VALUE);
        List<Object> offsets = new ArrayList<>();
        for (ByteBuffer buffer : result.getMessageBufferList()) {
            offsets.add(MessageDecoder.decode(buffer, false, false).getCommitLogOffset());
        }
        result.release();
        out.write(Json.row("query", "topic", topic, "key", key, "physical_offsets", offsets));
    }

    private static void collectKeys(MessageExt message, Set<String> keys) {
        String text = message.getProperty(MessageConst.PROPERTY_KEYS);
        if (text != null) {
            for (String key : text.split(MessageConst.KEY_SEPARATOR)) {
                keys.add(key);
            }
        }
        String unique = message.getProperty(MessageConst.PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX);
        if (unique != null) {
            keys.add(unique);
        }
    }

    private static Map<String, Object> answer(
        String kind, String topic, int queueId, long offset, GetMessageResult result) {
        return Json.row(kind, "topic", topic, "queue_id", queueId, "offset", offset,
            "max_count", MAX_COUNT, "status", result.getStatus().name(), "message_count",
            result.getMessageCount(), "next_begin_offset", result.getNextBeginOffset(), "min_offset",
            result.getMinOffset(), "max_offset", result.getMaxOffset());
    }

    private static Map<String, Object> message(MessageExt message) {
        Map<String, String> properties = message.getProperties();
        byte[] body = message.getBody() == null ? new byte[0] : message.getBody(); // null if empty
        return Json.row("message", "topic", message.getTopic(), "queue_id", message.getQueueId(),
            "queue_offset", message.getQueueOffset(), "physical_offset", message.getCommitLogOffset(),
            "size", message.getStoreSize(), "body", Json.hex(body), "body_crc",
            message.getBodyCRC(), "properties", properties == null ? Map.of() : new TreeMap<>(properties),
            "born_timestamp", message.getBornTimestamp(), "store_timestamp", message.getStoreTimestamp(),
            "born_host", host(message.getBornHost()), "store_host", host(message.getStoreHost()),
            "sys_flag", message.getSysFlag(), "flag", message.getFlag(), "reconsume_times",
            message.getReconsumeTimes(), "prepared_transaction_offset",
            message.getPreparedTransactionOffset(), "msg_id", message.getMsgId());
    }

    /** {@code 10.0.0.1:80} or {@code [fe80:0:0:0:0:0:0:1]:80}. */
    static String host(SocketAddress address) {
        InetSocketAddress inet = (InetSocketAddress) address;
        InetAddress host = inet.getAddress();
        String text = host.getHostAddress().replaceAll("%.*", "");
        return (text.contains(":") ? "[" + text + "]" : text) + ":" + inet.getPort();
    }

    private static List<Path> folders(Path parent) throws Exception {
        if (!Files.isDirectory(parent)) {
            return List.of();
        }
        try (Stream<Path> children = Files.list(parent)) {
            return children.filter(Files::isDirectory).sorted().collect(Collectors.toList());
        }
    }
}
