package reput.programs;

import java.nio.charset.StandardCharsets;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

/** A producer and a push consumer with the defaults of their release; prints what was taken. */
public final class Shop {
    private Shop() {}

    public static void main(String[] arguments) {
        try {
            run(arguments);
            System.exit(0);
        } catch (Exception error) {
            // Threads of the client would keep the process alive.
            error.printStackTrace();
            System.exit(1);
        }
    }

    private static void run(String[] arguments) throws Exception {
        String names = arguments[0];
        int count = Integer.parseInt(arguments[1]);

        DefaultMQProducer producer = new DefaultMQProducer("shop");
        producer.setNamesrvAddr(names);
        producer.start();
        int stored = 0;
        for (int i = 0; i < count; i++) {
            byte[] body = ("body-" + i).getBytes(StandardCharsets.UTF_8);
            if (producer.send(new Message("orders", "a", body)).getSendStatus() == SendStatus.SEND_OK) {
                stored++;
            }
        }
        System.out.println("sent " + stored);

        Set<String> taken = ConcurrentHashMap.newKeySet();
        CountDownLatch left = new CountDownLatch(count);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("billing");
        consumer.setNamesrvAddr(names);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe("orders", "a");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(message -> {
                if (taken.add(new String(message.getBody(), StandardCharsets.UTF_8))) {
                    left.countDown();
                }
            });
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        left.await(90, TimeUnit.SECONDS);
        System.out.println("taken " + taken.size());
        consumer.shutdown();
        producer.shutdown();
    }
}
