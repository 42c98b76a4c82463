package reput.broker;

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * RocketMQ's own client and admin tool, for tests of what talks to them. A line of stdin is a JSON
 * object whose {@code do} names the work; the answer is a line of JSON, with {@code error} where the
 * work failed. Arguments of the program: the name server. Ends with stdin.
 */
public final class Peer {
    private final String nameServer;
    private final PrintStream answers;
    private final Map<String, Listening> consumers = new HashMap<>();
    private DefaultMQProducer producer;
    private Load load;

    private Peer(String nameServer, PrintStream answers) {
        this.nameServer = nameServer;
        this.answers = answers;
    }

    public static void main(String[] arguments) throws Exception {
        // What the tools print must not get between the answers.
        PrintStream answers = new PrintStream(System.out, true, "UTF-8");
        System.setOut(System.err);
        new Peer(arguments[0], answers).run();
        System.exit(0);
    }

    private void run() throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Map<String, Object> answer;
            try {
                answer = work(RemotingSerializable.fromJson(line, HashMap.class));
            } catch (Throwable error) {
                error.printStackTrace();
                answer = Map.of("error", error.toString());
            }
            answers.println(RemotingSerializable.toJson(answer, false));
        }
        for (Listening each : consumers.values()) {
            each.stop();
        }
        if (producer != null) {
            producer.shutdown();
        }
    }

    private Map<String, Object> work(Map<String, Object> asked) throws Exception {
        String name = text(asked, "name", "");
        switch (text(asked, "do", "")) {
            case "admin":
                return Map.of("text", admin((List<String>) asked.get("arguments")));
            case "send":
                return Map.of("sent", send((List<Map<String, Object>>) asked.get("messages")));
            case "load":
                load = new Load(nameServer, text(asked, "topic", ""), number(asked, "count"), number(asked, "producers"));
                return Map.of();
            case "loaded":
                return Map.of("sent", load.sent(number(asked, "ms")));
            case "listen":
                consumers.put(name, new Listening(nameServer, asked));
                return Map.of();
            case "taken":
                return Map.of("taken", consumers.get(name).taken(number(asked, "count"), number(asked, "ms")));
            case "stop":
                consumers.remove(name).stop();
                return Map.of();
            default:
                throw new IllegalArgumentException("unknown work: " + asked);
        }
    }

    /** What a command of mqadmin prints; what it says of an error, it says in passing only. */
    private String admin(List<String> arguments) throws Exception {
        List<String> all = new ArrayList<>(arguments);
        all.add("-n");
        all.add(nameServer);
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        ByteArrayOutputStream errors = new ByteArrayOutputStream();
        PrintStream before = System.out;
        PrintStream errorsBefore = System.err;
        System.setOut(new PrintStream(bytes, true, "UTF-8"));
        System.setErr(new PrintStream(errors, true, "UTF-8"));
        try {
            MQAdminStartup.main0(all.toArray(new String[0]), null);
        } finally {
            System.setOut(before);
            System.setErr(errorsBefore);
        }
        String said = errors.toString("UTF-8");
        if (said.contains("SubCommandException")) {
            throw new IllegalStateException(String.join(" ", all) + ": " + said);
        }
        return bytes.toString("UTF-8");
    }

    private List<Map<String, Object>> send(List<Map<String, Object>> messages) throws Exception {
        if (producer == null) {
            producer = new DefaultMQProducer("reput-peer", hook());
            producer.setNamesrvAddr(nameServer);
            producer.setSendMsgTimeout(30_000);
            producer.start();
        }
        List<Map<String, Object>> sent = new ArrayList<>();
        for (Map<String, Object> each : messages) {
            SendResult result = each.containsKey("bodies")
                ? producer.send(batch(each), new MessageQueue(text(each, "topic", ""), text(each, "broker", "broker-a"), number(each, "queue_id")))
                : each.containsKey("queue_id")
                ? producer.send(message(each), new MessageQueue(text(each, "topic", ""), text(each, "broker", "broker-a"), number(each, "queue_id")))
                : producer.send(message(each));
            Map<String, Object> row = new LinkedHashMap<>();
            row.put("status", result.getSendStatus().name());
            row.put("msg_id", result.getMsgId());
            row.put("offset_msg_id", result.getOffsetMsgId());
            row.put("queue_id", result.getMessageQueue().getQueueId());
            row.put("queue_offset", result.getQueueOffset());
            sent.add(row);
        }
        return sent;
    }

    private static List<Message> batch(Map<String, Object> asked) {
        List<Message> messages = new ArrayList<>();
        for (Object body : (List<Object>) asked.get("bodies")) {
            Map<String, Object> one = new HashMap<>(asked);
            one.put("body", body);
            messages.add(message(one));
        }
        return messages;
    }

    private static Message message(Map<String, Object> asked) {
        byte[] body = text(asked, "body", "").getBytes(StandardCharsets.UTF_8);
        Message message = new Message(text(asked, "topic", ""), text(asked, "tags", ""), text(asked, "keys", ""), body);
        Map<String, Object> properties = (Map<String, Object>) asked.getOrDefault("properties", Map.of());
        properties.forEach((key, value) -> MessageAccessor.putProperty(message, key, value.toString()));
        return message;
    }

    /** Signs requests, where the properties of the system name keys; null where they do not. */
    static RPCHook hook() {
        String access = System.getProperty("reput.accessKey");
        return access == null
            ? null : new AclClientRPCHook(new SessionCredentials(access, System.getProperty("reput.secretKey")));
    }

    static String text(Map<String, Object> asked, String key, String otherwise) {
        Object found = asked.get(key);
        return found == null ? otherwise : found.toString();
    }

    static int number(Map<String, Object> asked, String key) {
        return ((Number) asked.get(key)).intValue();
    }
}
