package reput.clients;

import static reput.clients.Words.is;
import static reput.clients.Words.number;
import static reput.clients.Words.text;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.RequestCallback;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * A producer. Options: group, instance, namespace, trace, transaction, max_size, compression,
 * access_key, secret_key.
 */
final class Producing {
    private static final int SECONDS = 30;
    private final DefaultMQProducer producer;
    private final Deciding deciding = new Deciding();

    Producing(String nameServer, Map<String, Object> asked) throws Exception {
        String namespace = text(asked, "namespace", null);
        String group = text(asked, "group", "shop");
        if (is(asked, "transaction")) {
            TransactionMQProducer made =
                new TransactionMQProducer(namespace, group, Words.signing(asked), is(asked, "trace"), null);
            made.setTransactionListener(deciding);
            producer = made;
        } else {
            producer = new DefaultMQProducer(namespace, group, Words.signing(asked), is(asked, "trace"), null);
        }
        producer.setNamesrvAddr(nameServer);
        producer.setInstanceName(text(asked, "instance", "DEFAULT"));
        producer.setSendMsgTimeout(SECONDS * 1000);
        if (asked.containsKey("max_size")) {
            producer.setMaxMessageSize(number(asked, "max_size"));
            producer.setCompressMsgBodyOverHowmuch(number(asked, "max_size"));
        }
        if (asked.containsKey("compression")) {
            // Since 5.0 only, so not known when this is compiled for 4.9.
            Class<?> type = Class.forName("org.apache.rocketmq.common.compression.CompressionType");
            Object wanted = type.getMethod("of", String.class).invoke(null, text(asked, "compression", ""));
            DefaultMQProducer.class.getMethod("setCompressType", type).invoke(producer, wanted);
        }
        producer.start();
    }

    /** Sends messages as {@code how} says; the answer to each, which is an error or a place. */
    List<Map<String, Object>> send(Map<String, Object> asked) throws Exception {
        List<Map<String, Object>> rows = (List<Map<String, Object>>) asked.get("messages");
        List<Map<String, Object>> sent = new ArrayList<>();
        String how = text(asked, "how", "sync");
        if (how.equals("batch")) {
            List<Message> messages = new ArrayList<>();
            rows.forEach(each -> messages.add(Words.message(each)));
            sent.add(row(producer.send(messages)));
            return sent;
        }
        List<CompletableFuture<Map<String, Object>>> waiting = new ArrayList<>();
        for (Map<String, Object> each : rows) {
            waiting.add(one(how, each));
        }
        for (CompletableFuture<Map<String, Object>> each : waiting) {
            sent.add(each.get(SECONDS, TimeUnit.SECONDS));
        }
        return sent;
    }

    private CompletableFuture<Map<String, Object>> one(String how, Map<String, Object> asked) {
        Message message = Words.message(asked);
        CompletableFuture<Map<String, Object>> answer = new CompletableFuture<>();
        try {
            switch (how) {
                case "sync":
                    answer.complete(row(producer.send(message)));
                    break;
                case "queue":
                    answer.complete(row(producer.send(
                        message, new MessageQueue(message.getTopic(), "broker-a", number(asked, "queue_id")))));
                    break;
                case "shard":
                    answer.complete(row(producer.send(message, new SelectMessageQueueByHash(), text(asked, "shard", ""))));
                    break;
                case "transaction":
                    answer.complete(row(((TransactionMQProducer) producer).sendMessageInTransaction(message, null)));
                    break;
                case "one-way":
                    producer.sendOneway(message);
                    answer.complete(Map.of());
                    break;
                case "async":
                    producer.send(message, completing(answer));
                    break;
                default:
                    throw new IllegalArgumentException("unknown way to send: " + how);
            }
        } catch (Exception error) {
            answer.complete(Map.of("error", error.toString()));
        }
        return answer;
    }

    private static SendCallback completing(CompletableFuture<Map<String, Object>> answer) {
        return new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                answer.complete(row(result));
            }

            @Override
            public void onException(Throwable error) {
                answer.complete(Map.of("error", error.toString()));
            }
        };
    }

    /** Asks, and waits for the reply: in the call, or in a callback. */
    Map<String, Object> request(Map<String, Object> asked) throws Exception {
        Message message = Words.message(asked);
        int ms = number(asked, "ms");
        if (text(asked, "how", "sync").equals("sync")) {
            return reply(producer.request(message, ms));
        }
        CompletableFuture<Message> answer = new CompletableFuture<>();
        producer.request(message, new RequestCallback() {
            @Override
            public void onSuccess(Message found) {
                // Some releases call it without a message when the question alone was sent.
                if (found != null) {
                    answer.complete(found);
                }
            }

            @Override
            public void onException(Throwable error) {
                answer.completeExceptionally(error);
            }
        }, ms);
        return reply(answer.get(2L * ms, TimeUnit.MILLISECONDS));
    }

    private static Map<String, Object> reply(Message found) {
        return Map.of("reply", new String(found.getBody(), StandardCharsets.UTF_8));
    }

    /** The bodies of messages after which the broker has asked. */
    List<String> checked(int count, int ms) throws InterruptedException {
        return deciding.checked(count, ms);
    }

    void stop() {
        producer.shutdown();
    }

    private static Map<String, Object> row(SendResult result) {
        Map<String, Object> row = new LinkedHashMap<>();
        row.put("status", result.getSendStatus().name());
        row.put("msg_id", result.getMsgId());
        row.put("offset_msg_id", result.getOffsetMsgId());
        row.put("queue_id", result.getMessageQueue().getQueueId());
        row.put("queue_offset", result.getQueueOffset());
        return row;
    }
}
