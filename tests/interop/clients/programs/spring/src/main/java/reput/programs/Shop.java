package reput.programs;

import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.spring.annotation.RocketMQMessageListener;
import org.apache.rocketmq.spring.core.RocketMQListener;
import org.apache.rocketmq.spring.core.RocketMQTemplate;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.stereotype.Component;

/** An application with a template that sends and a listener that takes; prints how many. */
@SpringBootApplication
public class Shop {
    static final Set<String> TAKEN = ConcurrentHashMap.newKeySet();

    /** What takes the messages. */
    @Component
    @RocketMQMessageListener(topic = "orders", consumerGroup = "billing", selectorExpression = "a")
    public static class Listener implements RocketMQListener<String> {
        @Override
        public void onMessage(String body) {
            TAKEN.add(body);
        }
    }

    public static void main(String[] arguments) throws Exception {
        int count = Integer.parseInt(arguments[1]);
        SpringApplication application = new SpringApplication(Shop.class);
        ConfigurableApplicationContext context = application.run(
            "--rocketmq.name-server=" + arguments[0], "--rocketmq.producer.group=shop");
        RocketMQTemplate template = context.getBean(RocketMQTemplate.class);
        int stored = 0;
        for (int i = 0; i < count; i++) {
            if (template.syncSend("orders:a", "body-" + i).getSendStatus() == SendStatus.SEND_OK) {
                stored++;
            }
        }
        System.out.println("sent " + stored);
        for (int i = 0; i < 900 && TAKEN.size() < count; i++) {
            TimeUnit.MILLISECONDS.sleep(100);
        }
        System.out.println("taken " + TAKEN.size());
        context.close();
    }
}
