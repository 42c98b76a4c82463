// RocketMQ's client in Go for release 5, for tests of the server. A line of stdin is a JSON object
// whose "do" names the work; the answer is a line of JSON, with "error" where the work failed. Ends
// with stdin. The programs in the other languages take the same lines.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
)

// work is one line of the tests; what a kind of work does not need is left out.
type work struct {
	Do         string
	Name       string
	Endpoints  string
	Namespace  string
	AccessKey  string `json:"access_key"`
	SecretKey  string `json:"secret_key"`
	TLS        bool
	Topics     []string
	Checks     bool
	Messages   []asked
	Group      string
	Topic      string
	Expression string
	SQL        string
	Count      int
	Ms         int
	Ack        bool
	InvisibleS int `json:"invisible_s"`
	ChangeS    int `json:"change_s"`
}

type answer map[string]any

type program struct {
	config    rmq.Config
	producers map[string]*producing
	simples   map[string]*simple
	pushes    map[string]*push
}

func main() {
	// Answers alone go to stdout, whatever the client prints.
	answers := os.Stdout
	os.Stdout = os.Stderr
	os.Setenv(rmq.ENABLE_CONSOLE_APPENDER, "true")
	os.Setenv(rmq.CLIENT_LOG_LEVEL, "warn")
	rmq.ResetLogger()
	here := &program{
		producers: map[string]*producing{}, simples: map[string]*simple{}, pushes: map[string]*push{},
	}
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
		p.begin(todo)
	case "producer":
		made, err := newProducing(p.config, todo)
		if err != nil {
			return nil, err
		}
		p.producers[todo.Name] = made
	case "send":
		return answer{"sent": p.producers[todo.Name].send(todo.Messages)}, nil
	case "checked":
		return answer{"checked": p.producers[todo.Name].checked.wait(todo.Count, todo.Ms)}, nil
	case "simple":
		made, err := newSimple(p.config, todo)
		if err != nil {
			return nil, err
		}
		p.simples[todo.Name] = made
	case "receive":
		rows, err := p.simples[todo.Name].receive(todo)
		return answer{"taken": rows}, err
	case "listen":
		made, err := newPush(p.config, todo)
		if err != nil {
			return nil, err
		}
		p.pushes[todo.Name] = made
	case "taken":
		return answer{"taken": p.pushes[todo.Name].taken.wait(todo.Count, todo.Ms)}, nil
	case "stop":
		return answer{}, p.stop(todo.Name)
	default:
		return nil, fmt.Errorf("unknown work: %s", line)
	}
	return answer{}, nil
}

func (p *program) begin(todo work) {
	rmq.EnableSsl = todo.TLS
	keys := &credentials.SessionCredentials{AccessKey: todo.AccessKey, AccessSecret: todo.SecretKey}
	p.config = rmq.Config{Endpoint: todo.Endpoints, NameSpace: todo.Namespace, Credentials: keys}
}

func (p *program) stop(name string) error {
	if client, ok := p.simples[name]; ok {
		delete(p.simples, name)
		return client.consumer.GracefulStop()
	}
	if client, ok := p.pushes[name]; ok {
		delete(p.pushes, name)
		return client.consumer.GracefulStop()
	}
	client := p.producers[name]
	delete(p.producers, name)
	return client.producer.GracefulStop()
}

func (p *program) end() {
	for name := range p.pushes {
		_ = p.stop(name)
	}
	for name := range p.simples {
		_ = p.stop(name)
	}
	for name := range p.producers {
		_ = p.stop(name)
	}
}
