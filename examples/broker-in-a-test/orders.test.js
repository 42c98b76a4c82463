// A consumer's test in JavaScript: an order that is not acknowledged is delivered again.
// Needs `rocketmq-client-nodejs`, and Python with reput-server on the path: `node --test`.
const assert = require('node:assert');
const { spawn } = require('node:child_process');
const readline = require('node:readline');
const test = require('node:test');
const { FilterExpression, Producer, SimpleConsumer } = require('rocketmq-client-nodejs');

test('an order that is not acknowledged is delivered again', async () => {
  const broker = spawn('python', ['-m', 'reput_server.testing', '--grpc']);
  const answers = readline.createInterface({ input: broker.stdout })[Symbol.asyncIterator]();
  const answer = async () => JSON.parse((await answers.next()).value);
  const ask = (line) => { broker.stdin.write(`${JSON.stringify(line)}\n`); return answer(); };
  const options = { endpoints: (await answer()).endpoints, namespace: '' };
  await ask({ do: 'topic', topic: 'orders' });

  const producer = new Producer({ ...options, topics: ['orders'] });
  const consumer = new SimpleConsumer({
    ...options,
    consumerGroup: 'billing',
    awaitDuration: 10000,
    subscriptions: new Map([['orders', new FilterExpression('*')]]),
  });
  await producer.startup();
  await consumer.startup();
  await producer.send({ topic: 'orders', body: Buffer.from('one book') });
  await consumer.receive(16, 30000); // and not acknowledged in time
  await ask({ do: 'forward', seconds: 31 });
  const [again] = await consumer.receive(16, 30000);
  await consumer.ack(again);
  await consumer.shutdown();
  await producer.shutdown();
  broker.stdin.end();
  assert.equal(again.deliveryAttempt, 2);
});
