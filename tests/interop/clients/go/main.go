// RocketMQ's client in Go, for tests of the server. A line of stdin is a JSON object whose "do" names
// the work; the answer is a line of JSON, with "error" where the work failed. Ends with stdin. The
// programs in the other languages take the same lines.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	"github.com/apache/rocketmq-client-go/v2/rlog"
)

// work is one line of the tests; what a kind of work does not need is left out.
type work struct {
	Do           string
	Name         string
	NameServer   string `json:"name_server"`
	How          string
	Group        string
	Topic        string
	Instance     string
	Namespace    string
	AccessKey    string `json:"access_key"`
	SecretKey    string `json:"secret_key"`
	Trace        bool
	Transaction  bool
	MaxSize      int `json:"max_size"`
	Expression   string
	SQL          string
	Orderly      bool
	Broadcast    bool
	Replies      bool
	Start        string
	MaxReconsume *int32 `json:"max_reconsume"`
	Count        int
	Ms           int
	Messages     []asked
	asked
}

type answer map[string]any

type program struct {
	nameServer string
	producers  map[string]*producing
	consumers  map[string]taker
}

func main() {
	// Answers alone go to stdout, whatever the client prints.
	answers := os.Stdout
	os.Stdout = os.Stderr
	rlog.SetLogLevel("warn")
	here := &program{producers: map[string]*producing{}, consumers: map[string]taker{}}
	lines := bufio.NewReader(os.Stdin)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			here.end()
			return
		}
		found, err := here.line(line)
		if err != nil {
			found = answer{"error": err.Error()}
		}
		text, err := json.Marshal(found)
		if err != nil {
			panic(err)
		}
		fmt.Fprintln(answers, string(text))
	}
}

func (p *program) line(line []byte) (answer, error) {
	var todo work
	if err := json.Unmarshal(line, &todo); err != nil {
		return nil, err
	}
	switch todo.Do {
	case "begin":
		p.nameServer = todo.NameServer
	case "producer":
		made, err := newProducing(p.nameServer, todo)
		if err != nil {
			return nil, err
		}
		p.producers[todo.Name] = made
	case "send":
		sent, err := p.producers[todo.Name].send(todo)
		return answer{"sent": sent}, err
	case "request":
		reply, err := p.producers[todo.Name].request(todo)
		return answer{"reply": reply}, err
	case "checked":
		return answer{"checked": p.producers[todo.Name].deciding.wait(todo.Count, todo.Ms)}, nil
	case "listen":
		made, err := newListening(p.nameServer, todo)
		if err != nil {
			return nil, err
		}
		p.consumers[todo.Name] = made
	case "poll":
		made, err := newPolling(p.nameServer, todo)
		if err != nil {
			return nil, err
		}
		p.consumers[todo.Name] = made
	case "taken":
		return answer{"taken": p.consumers[todo.Name].wait(todo.Count, todo.Ms)}, nil
	case "stop":
		if consumer, ok := p.consumers[todo.Name]; ok {
			delete(p.consumers, todo.Name)
			return answer{}, consumer.stop()
		}
		producer := p.producers[todo.Name]
		delete(p.producers, todo.Name)
		return answer{}, producer.stop()
	default:
		return nil, fmt.Errorf("unknown work: %s", line)
	}
	return answer{}, nil
}

func (p *program) end() {
	for _, each := range p.consumers {
		_ = each.stop()
	}
	for _, each := range p.producers {
		_ = each.stop()
	}
}
