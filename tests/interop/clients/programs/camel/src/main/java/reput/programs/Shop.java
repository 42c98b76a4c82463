package reput.programs;

import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.camel.ProducerTemplate;
import org.apache.camel.builder.RouteBuilder;
import org.apache.camel.impl.DefaultCamelContext;

/** A route to a topic and a route from it; prints how many messages went through both. */
public final class Shop {
    private Shop() {}

    public static void main(String[] arguments) throws Exception {
        String names = arguments[0];
        int count = Integer.parseInt(arguments[1]);
        Set<String> taken = ConcurrentHashMap.newKeySet();
        CountDownLatch left = new CountDownLatch(count);
        DefaultCamelContext context = new DefaultCamelContext();
        context.addRoutes(new RouteBuilder() {
            @Override
            public void configure() {
                String end = "rocketmq:orders?namesrvAddr=" + names;
                from("direct:in").to(end + "&producerGroup=shop&sendTag=a");
                from(end + "&consumerGroup=billing&subscribeTags=a").process(exchange -> {
                    if (taken.add(exchange.getMessage().getBody(String.class))) {
                        left.countDown();
                    }
                });
            }
        });
        context.start();
        ProducerTemplate template = context.createProducerTemplate();
        for (int i = 0; i < count; i++) {
            template.requestBody("direct:in", "body-" + i); // throws if it is not stored
        }
        System.out.println("sent " + count);
        left.await(90, TimeUnit.SECONDS);
        System.out.println("taken " + taken.size());
        context.stop();
        System.exit(0);
    }
}
