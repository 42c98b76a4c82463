// A consumer's test in Java: an order that is not acknowledged is delivered again.
// Needs `rocketmq-client-java` on the class path, and Python with reput-server on the path.
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.time.Duration;
import java.util.Map;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;

class OrdersTest {
    public static void main(String[] arguments) throws Exception {
        Process broker = new ProcessBuilder("python", "-m", "reput_server.testing", "--grpc").start();
        BufferedReader answers = new BufferedReader(new InputStreamReader(broker.getInputStream()));
        PrintStream lines = new PrintStream(broker.getOutputStream(), true);
        String endpoints = answers.readLine().replaceAll(".*\"endpoints\": \"([^\"]*)\".*", "$1");
        lines.println("{\"do\": \"topic\", \"topic\": \"orders\"}");
        answers.readLine();

        ClientServiceProvider provider = ClientServiceProvider.loadService();
        ClientConfiguration config =
            ClientConfiguration.newBuilder().setEndpoints(endpoints).enableSsl(false).build();
        try (Producer producer = provider.newProducerBuilder()
                .setClientConfiguration(config).setTopics("orders").build();
            SimpleConsumer consumer = provider.newSimpleConsumerBuilder()
                .setClientConfiguration(config).setConsumerGroup("billing")
                .setAwaitDuration(Duration.ofSeconds(10))
                .setSubscriptionExpressions(Map.of("orders", FilterExpression.SUB_ALL)).build()) {
            producer.send(provider.newMessageBuilder()
                .setTopic("orders").setBody("one book".getBytes()).build());
            consumer.receive(16, Duration.ofSeconds(30));  // and not acknowledged in time
            lines.println("{\"do\": \"forward\", \"seconds\": 31}");
            answers.readLine();
            MessageView again = consumer.receive(16, Duration.ofSeconds(30)).get(0);
            consumer.ack(again);
            System.out.println("attempt " + again.getDeliveryAttempt());  // attempt 2
        }
        lines.close();
    }
}
