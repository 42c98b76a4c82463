package reput.interop;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.UnknownHostException;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.apache.rocketmq.common.message.*; // MessageExtBrokerInner is here in 5.x
import org.apache.rocketmq.store.*; // and here in 4.9

/**
 * The messages of {@code benchmarks/workload.py}: 8 topics of 4 queues, visited in turn, each with a
 * tag, one key, a unique key of 32 characters, {@code WAIT} and random bytes.
 */
final class Messages {
    static final int TOPICS = 8;
    static final int QUEUES = 4;

    private final byte[][] bodies;
    private final InetSocketAddress bornHost;
    private final InetSocketAddress storeHost;

    /** Messages of {@code distinct} different bodies of this size, which they take in turn. */
    Messages(int bodySize, int distinct) throws UnknownHostException {
        Random random = new Random(1);
        bodies = new byte[distinct][bodySize];
        for (byte[] body : bodies) {
            random.nextBytes(body);
        }
        bornHost = new InetSocketAddress(InetAddress.getByName("10.1.2.3"), 40_000);
        storeHost = new InetSocketAddress(InetAddress.getByName("192.168.0.7"), 10_911);
    }

    static String topic(int topic) {
        return "bench-0" + topic;
    }

    /** A message whose properties are not encoded yet. */
    MessageExtBrokerInner single(int i) {
        MessageExtBrokerInner message = new MessageExtBrokerInner();
        address(message, i);
        fill(message, i);
        return message;
    }

    /** What a broker does with each message before it asks the store to put it. */
    static void encode(MessageExtBrokerInner message) {
        message.setPropertiesString(MessageDecoder.messageProperties2String(message.getProperties()));
        message.setTagsCode(MessageExtBrokerInner.tagsString2tagsCode(message.getTags()));
    }

    /** Messages as a client takes them into a batch. */
    List<Message> several(int from, int count) {
        List<Message> messages = new ArrayList<>(count);
        for (int i = from; i < from + count; i++) {
            Message message = new Message();
            fill(message, i);
            messages.add(message);
        }
        return messages;
    }

    /** A batch for the {@code number}th queue in turn. */
    MessageExtBatch batch(List<Message> messages, int number) {
        MessageExtBatch batch = new MessageExtBatch();
        address(batch, number);
        batch.setBody(MessageDecoder.encodeMessages(messages));
        return batch;
    }

    private void address(MessageExt message, int i) {
        message.setTopic(topic(i % TOPICS));
        message.setQueueId(i / TOPICS % QUEUES);
        message.setBornTimestamp(System.currentTimeMillis());
        message.setBornHost(bornHost);
        message.setStoreHost(storeHost);
    }

    private void fill(Message message, int i) {
        message.setBody(bodies[i % bodies.length]);
        message.setTags("Tag" + (char) ('A' + (i & 3)));
        message.setKeys("order-" + (10_000_000 + i));
        MessageAccessor.putProperty(message, "UNIQ_KEY", uniqueKey(i));
        message.setWaitStoreMsgOK(true);
    }

    /** 32 hexadecimal digits, the last eight of them counting. */
    private static String uniqueKey(int i) {
        char[] digits = "7F0000010000000002016C5F00000000".toCharArray();
        for (int at = 31; at > 23; at--, i >>>= 4) {
            digits[at] = "0123456789ABCDEF".charAt(i & 15);
        }
        return new String(digits);
    }
}
