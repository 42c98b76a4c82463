package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

const patience = 30 * time.Second

// producing is a producer, of transactions where it was asked for.
type producing struct {
	plain    rocketmq.Producer
	half     rocketmq.TransactionProducer
	deciding *deciding
}

func newProducing(nameServer string, todo work) (*producing, error) {
	options := []producer.Option{
		producer.WithNsResolver(nameServers(nameServer)),
		producer.WithGroupName(todo.Group),
		producer.WithSendMsgTimeout(patience),
		producer.WithQueueSelector(selecting{producer.NewRoundRobinQueueSelector(), producer.NewHashQueueSelector()}),
	}
	if todo.Instance != "" {
		options = append(options, producer.WithInstanceName(todo.Instance))
	}
	if todo.Namespace != "" {
		options = append(options, producer.WithNamespace(todo.Namespace))
	}
	if todo.AccessKey != "" {
		keys := primitive.Credentials{AccessKey: todo.AccessKey, SecretKey: todo.SecretKey}
		options = append(options, producer.WithCredentials(keys))
	}
	if todo.MaxSize != 0 {
		options = append(options, producer.WithCompressMsgBodyOverHowmuch(todo.MaxSize))
	}
	if todo.Trace {
		options = append(options, producer.WithTrace(tracing(nameServer)))
	}
	made := &producing{deciding: &deciding{}}
	var err error
	if todo.Transaction {
		if made.half, err = rocketmq.NewTransactionProducer(made.deciding, options...); err == nil {
			err = made.half.Start()
		}
	} else {
		if made.plain, err = rocketmq.NewProducer(options...); err == nil {
			err = made.plain.Start()
		}
	}
	return made, err
}

func tracing(nameServer string) *primitive.TraceConfig {
	return &primitive.TraceConfig{Access: primitive.Local, Resolver: nameServers(nameServer)}
}

// selecting takes the queue that a message names, or that of its key, or the next.
type selecting struct {
	next, byKey producer.QueueSelector
}

func (s selecting) Select(message *primitive.Message, queues []*primitive.MessageQueue, last string) *primitive.MessageQueue {
	if message.Queue != nil {
		return message.Queue
	}
	if message.GetShardingKey() != "" {
		return s.byKey.Select(message, queues, last)
	}
	return s.next.Select(message, queues, last)
}

// send sends messages as "how" says; the answer to each, which is an error or a place.
func (p *producing) send(todo work) ([]answer, error) {
	here := context.Background()
	messages := make([]*primitive.Message, len(todo.Messages))
	for at, each := range todo.Messages {
		messages[at] = each.message()
	}
	if todo.How == "batch" {
		result, err := p.plain.SendSync(here, messages...)
		return []answer{place(result, err)}, nil
	}
	sent := make([]answer, len(messages))
	var waiting sync.WaitGroup
	for at, each := range messages {
		switch todo.How {
		case "", "sync", "queue", "shard":
			sent[at] = place(p.plain.SendSync(here, each))
		case "one-way":
			sent[at] = answer{}
			if err := p.plain.SendOneWay(here, each); err != nil {
				sent[at] = answer{"error": err.Error()}
			}
		case "async":
			waiting.Add(1)
			err := p.plain.SendAsync(here, func(_ context.Context, result *primitive.SendResult, err error) {
				sent[at] = place(result, err)
				waiting.Done()
			}, each)
			if err != nil {
				sent[at] = answer{"error": err.Error()}
				waiting.Done()
			}
		case "transaction":
			result, err := p.half.SendMessageInTransaction(here, each)
			if err != nil {
				sent[at] = answer{"error": err.Error()}
			} else {
				sent[at] = place(result.SendResult, nil)
			}
		default:
			return nil, fmt.Errorf("unknown way to send: %s", todo.How)
		}
	}
	waiting.Wait()
	return sent, nil
}

var statuses = map[primitive.SendStatus]string{
	primitive.SendOK:                "SEND_OK",
	primitive.SendFlushDiskTimeout:  "FLUSH_DISK_TIMEOUT",
	primitive.SendFlushSlaveTimeout: "FLUSH_SLAVE_TIMEOUT",
	primitive.SendSlaveNotAvailable: "SLAVE_NOT_AVAILABLE",
}

func place(result *primitive.SendResult, err error) answer {
	if err != nil {
		return answer{"error": err.Error()}
	}
	return answer{
		"status":        statuses[result.Status],
		"msg_id":        result.MsgID,
		"offset_msg_id": result.OffsetMsgID,
		"queue_id":      result.MessageQueue.QueueId,
		"queue_offset":  result.QueueOffset,
	}
}

// request asks, and waits for the reply: in the call, or in a callback.
func (p *producing) request(todo work) (string, error) {
	here, patience := context.Background(), time.Duration(todo.Ms)*time.Millisecond
	todo.asked.Topic = todo.Topic
	message := todo.asked.message()
	if todo.How != "callback" {
		reply, err := p.plain.Request(here, patience, message)
		if err != nil {
			return "", err
		}
		return string(reply.Body), nil
	}
	type result struct {
		reply *primitive.Message
		err   error
	}
	found := make(chan result, 1)
	called := func(_ context.Context, reply *primitive.Message, err error) { found <- result{reply, err} }
	if err := p.plain.RequestAsync(here, patience, called, message); err != nil {
		return "", err
	}
	select {
	case got := <-found:
		if got.err != nil {
			return "", got.err
		}
		return string(got.reply.Body), nil
	case <-time.After(2 * patience):
		return "", errors.New("the callback was not called")
	}
}

func (p *producing) stop() error {
	if p.half != nil {
		return p.half.Shutdown()
	}
	return p.plain.Shutdown()
}

// deciding ends transactions as their bodies say: the first word at once, the second when the broker
// asks. A word is commit, rollback or unknown.
type deciding struct {
	gathered[string]
}

func (d *deciding) ExecuteLocalTransaction(message *primitive.Message) primitive.LocalTransactionState {
	return state(string(message.Body), 0)
}

func (d *deciding) CheckLocalTransaction(message *primitive.MessageExt) primitive.LocalTransactionState {
	d.add(string(message.Body))
	return state(string(message.Body), 1)
}

func state(body string, word int) primitive.LocalTransactionState {
	switch strings.Fields(body)[word] {
	case "commit":
		return primitive.CommitMessageState
	case "rollback":
		return primitive.RollbackMessageState
	}
	return primitive.UnknowState
}
