// A consumer's test in Go: an order that is not acknowledged is delivered again.
// Needs rocketmq-clients/golang/v5, and Python with reput-server on the path: `go test`.
package orders

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"testing"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestAnOrderThatIsNotAcknowledgedIsDeliveredAgain(t *testing.T) {
	broker := exec.Command("python", "-m", "reput_server.testing", "--grpc")
	lines, _ := broker.StdinPipe()
	out, _ := broker.StdoutPipe()
	must(t, broker.Start())
	defer lines.Close()
	answers := bufio.NewScanner(out)
	var where struct{ Endpoints string }
	answers.Scan()
	must(t, json.Unmarshal(answers.Bytes(), &where))
	fmt.Fprintln(lines, `{"do": "topic", "topic": "orders"}`)
	answers.Scan()

	rmq.EnableSsl = false
	config := &rmq.Config{
		Endpoint: where.Endpoints, ConsumerGroup: "billing", Credentials: &credentials.SessionCredentials{},
	}
	all := map[string]*rmq.FilterExpression{"orders": rmq.SUB_ALL}
	producer, err := rmq.NewProducer(config, rmq.WithTopics("orders"))
	must(t, err)
	must(t, producer.Start())
	defer producer.GracefulStop()
	consumer, err := rmq.NewSimpleConsumer(config,
		rmq.WithSimpleAwaitDuration(10*time.Second), rmq.WithSimpleSubscriptionExpressions(all))
	must(t, err)
	must(t, consumer.Start())
	defer consumer.GracefulStop()

	order := &rmq.Message{Topic: "orders", Body: []byte("one book")}
	_, err = producer.Send(context.TODO(), order)
	must(t, err)
	_, err = consumer.Receive(context.TODO(), 16, 30*time.Second) // and not acknowledged in time
	must(t, err)
	fmt.Fprintln(lines, `{"do": "forward", "seconds": 31}`)
	answers.Scan()
	again, err := consumer.Receive(context.TODO(), 16, 30*time.Second)
	must(t, err)
	must(t, consumer.Ack(context.TODO(), again[0]))
	if again[0].GetDeliveryAttempt() != 2 {
		t.Fatal(again[0].GetDeliveryAttempt())
	}
}
