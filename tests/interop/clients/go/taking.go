package main

import (
	"context"
	"strings"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// taker is somebody who takes messages.
type taker interface {
	wait(count, ms int) []answer
	stop() error
}

func options(nameServer string, todo work) []consumer.Option {
	made := []consumer.Option{
		consumer.WithNsResolver(nameServers(nameServer)),
		consumer.WithGroupName(todo.Group),
		consumer.WithConsumerOrder(todo.Orderly),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	}
	if todo.Start == "last" {
		made = append(made, consumer.WithConsumeFromWhere(consumer.ConsumeFromLastOffset))
	}
	if todo.Broadcast {
		made = append(made, consumer.WithConsumerModel(consumer.BroadCasting))
	}
	if todo.Instance != "" {
		made = append(made, consumer.WithInstance(todo.Instance))
	}
	if todo.Namespace != "" {
		made = append(made, consumer.WithNamespace(todo.Namespace))
	}
	if todo.AccessKey != "" {
		keys := primitive.Credentials{AccessKey: todo.AccessKey, SecretKey: todo.SecretKey}
		made = append(made, consumer.WithCredentials(keys))
	}
	if todo.MaxReconsume != nil {
		made = append(made, consumer.WithMaxReconsumeTimes(*todo.MaxReconsume))
	}
	if todo.Trace {
		made = append(made, consumer.WithTrace(tracing(nameServer)))
	}
	return made
}

func selector(todo work) consumer.MessageSelector {
	if todo.SQL != "" {
		return consumer.MessageSelector{Type: consumer.SQL92, Expression: todo.SQL}
	}
	if todo.Expression != "" {
		return consumer.MessageSelector{Type: consumer.TAG, Expression: todo.Expression}
	}
	return consumer.MessageSelector{}
}

// listening is a push consumer. It refuses bodies that begin with "fail", and those that begin with
// "once" when they come for the first time.
type listening struct {
	gathered[answer]
	consumer rocketmq.PushConsumer
	replies  rocketmq.Producer
}

func newListening(nameServer string, todo work) (*listening, error) {
	made := &listening{}
	var err error
	if todo.Replies {
		made.replies, err = rocketmq.NewProducer(
			producer.WithNsResolver(nameServers(nameServer)), producer.WithGroupName(todo.Group+"-replies"))
		if err == nil {
			err = made.replies.Start()
		}
		if err != nil {
			return nil, err
		}
	}
	if made.consumer, err = rocketmq.NewPushConsumer(options(nameServer, todo)...); err != nil {
		return nil, err
	}
	if err = made.consumer.Subscribe(todo.Topic, selector(todo), made.take(todo.Orderly)); err != nil {
		return nil, err
	}
	return made, made.consumer.Start()
}

func (l *listening) take(orderly bool) func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
	return func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		sound := true
		for _, each := range messages {
			body := string(each.Body)
			first := each.ReconsumeTimes == 0
			sound = sound && !strings.HasPrefix(body, "fail") && !(first && strings.HasPrefix(body, "once"))
			found := row(each)
			if l.replies != nil {
				// The client tells the broker only now and then who asks; its own examples wait, too.
				time.Sleep(1500 * time.Millisecond)
				reply, err := consumer.CreateReplyMessage(each, []byte("re: "+body))
				if err == nil {
					// It makes properties of the body that it is given.
					reply.Body = []byte("re: " + body)
					_, err = l.replies.SendSync(context.Background(), reply)
				}
				if err != nil {
					found["error"] = err.Error()
				}
			}
			l.add(found)
		}
		switch {
		case sound:
			return consumer.ConsumeSuccess, nil
		case orderly:
			return consumer.SuspendCurrentQueueAMoment, nil
		}
		return consumer.ConsumeRetryLater, nil
	}
}

func (l *listening) stop() error {
	if l.replies != nil {
		if err := l.replies.Shutdown(); err != nil {
			return err
		}
	}
	return l.consumer.Shutdown()
}

// polling is a pull consumer whose messages come out of a cache, and are acknowledged.
type polling struct {
	gathered[answer]
	consumer rocketmq.PullConsumer
	cancel   context.CancelFunc
	ended    chan struct{}
}

func newPolling(nameServer string, todo work) (*polling, error) {
	made := &polling{ended: make(chan struct{})}
	var err error
	if made.consumer, err = rocketmq.NewPullConsumer(options(nameServer, todo)...); err != nil {
		return nil, err
	}
	if err = made.consumer.Subscribe(todo.Topic, selector(todo)); err != nil {
		return nil, err
	}
	if err = made.consumer.Start(); err != nil {
		return nil, err
	}
	here, cancel := context.WithCancel(context.Background())
	made.cancel = cancel
	go func() {
		defer close(made.ended)
		for here.Err() == nil {
			found, err := made.consumer.Poll(here, 200*time.Millisecond)
			if err != nil {
				continue
			}
			for _, each := range found.GetMsgList() {
				made.add(row(each))
			}
			made.consumer.ACK(context.Background(), found, consumer.ConsumeSuccess)
		}
	}()
	return made, nil
}

func (p *polling) stop() error {
	p.cancel()
	<-p.ended
	return p.consumer.Shutdown()
}
