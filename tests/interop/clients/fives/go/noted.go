package main

import (
	"sync"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
)

// noted is what has come so far, for a test that waits for it.
type noted struct {
	lock sync.Mutex
	all  []answer
}

func (n *noted) add(message *rmq.MessageView) {
	n.lock.Lock()
	defer n.lock.Unlock()
	n.all = append(n.all, row(message))
}

// wait returns all there is, once that are count or the time is over.
func (n *noted) wait(count, ms int) []answer {
	end := time.Now().Add(time.Duration(ms) * time.Millisecond)
	for {
		n.lock.Lock()
		found := append([]answer{}, n.all...)
		n.lock.Unlock()
		if len(found) >= count || time.Now().After(end) {
			return found
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func row(message *rmq.MessageView) answer {
	return answer{
		"topic":      message.GetTopic(),
		"body":       string(message.GetBody()),
		"tag":        message.GetTag(),
		"keys":       message.GetKeys(),
		"properties": message.GetProperties(),
		"attempt":    message.GetDeliveryAttempt(),
	}
}
