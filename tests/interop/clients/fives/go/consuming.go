package main

import (
	"context"
	"strings"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
)

const await = 6 * time.Second

func subscriptions(todo work) map[string]*rmq.FilterExpression {
	filter := rmq.SUB_ALL
	if todo.SQL != "" {
		filter = rmq.NewFilterExpressionWithType(todo.SQL, rmq.SQL92)
	} else if todo.Expression != "" {
		filter = rmq.NewFilterExpression(todo.Expression)
	}
	return map[string]*rmq.FilterExpression{todo.Topic: filter}
}

// simple is a consumer that asks for messages.
type simple struct {
	consumer rmq.SimpleConsumer
}

func newSimple(config rmq.Config, todo work) (*simple, error) {
	config.ConsumerGroup = todo.Group
	made, err := rmq.NewSimpleConsumer(&config,
		rmq.WithSimpleAwaitDuration(await), rmq.WithSimpleSubscriptionExpressions(subscriptions(todo)))
	if err != nil {
		return nil, err
	}
	return &simple{made}, made.Start()
}

// receive takes messages until there are as many as are wanted or the time is over.
func (s *simple) receive(todo work) ([]answer, error) {
	end := time.Now().Add(time.Duration(todo.Ms) * time.Millisecond)
	invisible := time.Duration(todo.InvisibleS) * time.Second
	rows := []answer{}
	for len(rows) < todo.Count && time.Now().Before(end) {
		found, err := s.consumer.Receive(context.Background(), 16, invisible)
		if err != nil && !isNothing(err) {
			return nil, err
		}
		for _, each := range found {
			if todo.ChangeS != 0 {
				changed := time.Duration(todo.ChangeS) * time.Second
				if err := s.consumer.ChangeInvisibleDuration(each, changed); err != nil {
					return nil, err
				}
			}
			if todo.Ack {
				if err := s.consumer.Ack(context.Background(), each); err != nil {
					return nil, err
				}
			}
			rows = append(rows, row(each))
		}
	}
	return rows, nil
}

// isNothing is whether a receive has found no message, which this client calls an error.
func isNothing(err error) bool {
	status, ok := rmq.AsErrRpcStatus(err)
	return ok && status.GetCode() == int32(v2.Code_MESSAGE_NOT_FOUND)
}

// push is a push consumer: it refuses bodies of "fail…", and of "once…" one time.
type push struct {
	consumer rmq.PushConsumer
	taken    noted
}

func newPush(config rmq.Config, todo work) (*push, error) {
	config.ConsumerGroup = todo.Group
	made := &push{}
	listener := &rmq.FuncMessageListener{Consume: func(message *rmq.MessageView) rmq.ConsumerResult {
		made.taken.add(message)
		body := string(message.GetBody())
		isFirst := message.GetDeliveryAttempt() == 1
		if strings.HasPrefix(body, "fail") || isFirst && strings.HasPrefix(body, "once") {
			return rmq.FAILURE
		}
		return rmq.SUCCESS
	}}
	var err error
	made.consumer, err = rmq.NewPushConsumer(&config,
		rmq.WithPushMessageListener(listener), rmq.WithPushSubscriptionExpressions(subscriptions(todo)))
	if err != nil {
		return nil, err
	}
	return made, made.consumer.Start()
}
