package main

import (
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// asked is a message as the tests write it.
type asked struct {
	Topic      string
	Body       string
	Tags       string
	Keys       string
	Level      int
	QueueID    *int `json:"queue_id"`
	Shard      string
	Properties map[string]string
}

func (a asked) message() *primitive.Message {
	message := primitive.NewMessage(a.Topic, []byte(a.Body))
	if a.Tags != "" {
		message.WithTag(a.Tags)
	}
	if a.Keys != "" {
		message.WithKeys(strings.Fields(a.Keys))
	}
	if a.Level != 0 {
		message.WithDelayTimeLevel(a.Level)
	}
	if a.QueueID != nil {
		message.Queue = &primitive.MessageQueue{Topic: a.Topic, BrokerName: "broker-a", QueueId: *a.QueueID}
	}
	if a.Shard != "" {
		message.WithShardingKey(a.Shard)
	}
	for key, value := range a.Properties {
		message.WithProperty(key, value)
	}
	return message
}

func row(message *primitive.MessageExt) answer {
	return answer{
		"topic":           message.Topic,
		"queue_id":        message.Queue.QueueId,
		"queue_offset":    message.QueueOffset,
		"msg_id":          message.MsgId,
		"reconsume_times": message.ReconsumeTimes,
		"body":            string(message.Body),
		"tags":            message.GetTags(),
		"keys":            message.GetKeys(),
		"properties":      message.GetProperties(),
	}
}

func nameServers(address string) primitive.NsResolver {
	return primitive.NewPassthroughResolver([]string{address})
}

// gathered is what came in so far, for who waits for it.
type gathered[T any] struct {
	lock sync.Mutex
	all  []T
}

func (g *gathered[T]) add(one T) {
	g.lock.Lock()
	defer g.lock.Unlock()
	g.all = append(g.all, one)
}

// wait returns all there is, once that are count or the time is over.
func (g *gathered[T]) wait(count, ms int) []T {
	end := time.Now().Add(time.Duration(ms) * time.Millisecond)
	for {
		g.lock.Lock()
		found := append([]T{}, g.all...)
		g.lock.Unlock()
		if len(found) >= count || time.Now().After(end) {
			return found
		}
		time.Sleep(5 * time.Millisecond)
	}
}
