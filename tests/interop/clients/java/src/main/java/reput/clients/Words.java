package reput.clients;

import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.RPCHook;

/** What the lines of the tests say, in the client's terms. */
final class Words {
    private Words() {
    }

    static String text(Map<String, Object> asked, String key, String otherwise) {
        Object found = asked.get(key);
        return found == null ? otherwise : found.toString();
    }

    static int number(Map<String, Object> asked, String key) {
        return ((Number) asked.get(key)).intValue();
    }

    static boolean is(Map<String, Object> asked, String key) {
        return Boolean.TRUE.equals(asked.get(key));
    }

    /** What signs requests; null where no keys are named. */
    static RPCHook signing(Map<String, Object> asked) {
        return asked.containsKey("access_key")
            ? new AclClientRPCHook(new SessionCredentials(text(asked, "access_key", ""), text(asked, "secret_key", "")))
            : null;
    }

    static Message message(Map<String, Object> asked) {
        byte[] body = text(asked, "body", "").getBytes(StandardCharsets.UTF_8);
        Message message = new Message(text(asked, "topic", ""), text(asked, "tags", ""), text(asked, "keys", ""), body);
        if (asked.containsKey("level")) {
            message.setDelayTimeLevel(number(asked, "level"));
        }
        Map<String, Object> properties = (Map<String, Object>) asked.getOrDefault("properties", Map.of());
        properties.forEach((key, value) -> MessageAccessor.putProperty(message, key, value.toString()));
        return message;
    }

    static Map<String, Object> row(MessageExt message) {
        Map<String, Object> row = new LinkedHashMap<>();
        row.put("topic", message.getTopic());
        row.put("queue_id", message.getQueueId());
        row.put("queue_offset", message.getQueueOffset());
        row.put("msg_id", message.getMsgId());
        row.put("reconsume_times", message.getReconsumeTimes());
        row.put("body", new String(message.getBody(), StandardCharsets.UTF_8));
        row.put("tags", message.getTags());
        row.put("keys", message.getKeys());
        row.put("properties", new TreeMap<>(message.getProperties()));
        return row;
    }
}
