package main

import (
	"context"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
)

// asked is a message as the tests write it.
type asked struct {
	Topic        string
	Body         string
	Tag          string
	Keys         []string
	Properties   map[string]string
	MessageGroup string `json:"message_group"`
	DelayS       int    `json:"delay_s"`
	End          string
}

func (a asked) message() *rmq.Message {
	made := &rmq.Message{Topic: a.Topic, Body: []byte(a.Body)}
	if a.Tag != "" {
		made.SetTag(a.Tag)
	}
	if len(a.Keys) > 0 {
		made.SetKeys(a.Keys...)
	}
	for name, value := range a.Properties {
		made.AddProperty(name, value)
	}
	if a.MessageGroup != "" {
		made.SetMessageGroup(a.MessageGroup)
	}
	if a.DelayS != 0 {
		made.SetDelayTimestamp(time.Now().Add(time.Duration(a.DelayS) * time.Second))
	}
	return made
}

// producing is a producer, which commits each transaction that it is asked for.
type producing struct {
	producer rmq.Producer
	checked  noted
}

func newProducing(config rmq.Config, todo work) (*producing, error) {
	made := &producing{}
	options := []rmq.ProducerOption{rmq.WithTopics(todo.Topics...)}
	if todo.Checks {
		check := func(message *rmq.MessageView) rmq.TransactionResolution {
			made.checked.add(message)
			return rmq.COMMIT
		}
		options = append(options, rmq.WithTransactionChecker(&rmq.TransactionChecker{Check: check}))
	}
	var err error
	if made.producer, err = rmq.NewProducer(&config, options...); err != nil {
		return nil, err
	}
	return made, made.producer.Start()
}

func (p *producing) send(messages []asked) []answer {
	sent := []answer{}
	for _, each := range messages {
		id, err := p.sendOne(each)
		if err != nil {
			sent = append(sent, answer{"error": err.Error()})
		} else {
			sent = append(sent, answer{"id": id})
		}
	}
	return sent
}

func (p *producing) sendOne(todo asked) (string, error) {
	if todo.End == "" {
		receipts, err := p.producer.Send(context.Background(), todo.message())
		if err != nil {
			return "", err
		}
		return receipts[0].MessageID, nil
	}
	transaction := p.producer.BeginTransaction()
	receipts, err := p.producer.SendWithTransaction(context.Background(), todo.message(), transaction)
	if err != nil {
		return "", err
	}
	switch todo.End {
	case "commit":
		err = transaction.Commit()
	case "rollback":
		err = transaction.RollBack()
	}
	return receipts[0].MessageID, err
}
