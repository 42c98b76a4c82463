package reput.clients;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Ends transactions as their bodies say: the first word at once, the second when the broker asks.
 * A word is {@code commit}, {@code rollback} or {@code unknown}.
 */
final class Deciding implements TransactionListener {
    private final List<String> checked = new ArrayList<>();

    @Override
    public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
        return state(text(message).split(" ")[0]);
    }

    @Override
    public LocalTransactionState checkLocalTransaction(MessageExt message) {
        synchronized (this) {
            checked.add(text(message));
            notifyAll();
        }
        return state(text(message).split(" ")[1]);
    }

    synchronized List<String> checked(int count, int ms) throws InterruptedException {
        long end = System.nanoTime() + ms * 1_000_000L;
        for (long left = ms; checked.size() < count && left > 0; left = (end - System.nanoTime()) / 1_000_000L) {
            wait(left);
        }
        return new ArrayList<>(checked);
    }

    private static String text(Message message) {
        return new String(message.getBody(), StandardCharsets.UTF_8);
    }

    private static LocalTransactionState state(String word) {
        switch (word) {
            case "commit":
                return LocalTransactionState.COMMIT_MESSAGE;
            case "rollback":
                return LocalTransactionState.ROLLBACK_MESSAGE;
            default:
                return LocalTransactionState.UNKNOW;
        }
    }
}
