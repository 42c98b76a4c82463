'use strict';

// RocketMQ's client in JavaScript for release 5, for tests of the server. A line of stdin is a JSON
// object whose "do" names the work; the answer is a line of JSON, with "error" where the work
// failed. Ends with stdin. The programs in the other languages take the same lines.

const readline = require('readline');
const {
  ConsumeResult, FilterExpression, Producer, PushConsumer, SimpleConsumer,
} = require('rocketmq-client-nodejs');

const COMMIT = 1;
const SQL = 2;
// Answers alone go to stdout.
const quiet = {
  debug() {},
  info() {},
  warn: (...said) => console.error(...said),
  error: (...said) => console.error(...said),
};
const producers = new Map();
const consumers = new Map();
let options = {};

function begin(asked) {
  options = {
    endpoints: asked.endpoints,
    namespace: asked.namespace || '',
    sslEnabled: Boolean(asked.tls),
    logger: quiet,
  };
  if (asked.access_key) {
    options.sessionCredentials = { accessKey: asked.access_key, accessSecret: asked.secret_key };
  }
}

/** What has come so far, for a test that waits for it. */
class Noted {
  constructor() {
    this.all = [];
    this.told = () => {};
  }

  add(message) {
    this.all.push(row(message));
    this.told();
  }

  /** All there is, once that are `count` or the time is over. */
  async wait({ count, ms }) {
    const over = Date.now() + ms;
    while (this.all.length < count && Date.now() < over) {
      await new Promise((resolve) => {
        const timer = setTimeout(resolve, over - Date.now());
        this.told = () => { clearTimeout(timer); resolve(); };
      });
    }
    return this.all;
  }
}

function row(message) {
  return {
    topic: message.topic,
    body: String(message.body),
    tag: message.tag || null,
    keys: message.keys,
    properties: Object.fromEntries(message.properties),
    attempt: message.deliveryAttempt,
  };
}

function message(asked) {
  const made = { topic: asked.topic, body: Buffer.from(asked.body) };
  if (asked.tag) made.tag = asked.tag;
  if (asked.keys) made.keys = asked.keys;
  if (asked.properties) made.properties = new Map(Object.entries(asked.properties));
  if (asked.message_group) made.messageGroup = asked.message_group;
  if (asked.delay_s) made.deliveryTimestamp = new Date(Date.now() + asked.delay_s * 1000);
  return made;
}

async function sendOne(producer, asked) {
  try {
    if (!asked.end) {
      const found = await producer.send(message(asked));
      return { id: found.messageId, handle: found.recallHandle || null };
    }
    const transaction = producer.beginTransaction();
    const found = await producer.send(message(asked), transaction);
    if (asked.end === 'commit') await transaction.commit();
    if (asked.end === 'rollback') await transaction.rollback();
    return { id: found.messageId };
  } catch (error) {
    return { error: String(error) };
  }
}

async function produce(asked) {
  const checked = new Noted();
  const made = { ...options, topics: asked.topics };
  if (asked.checks) {
    made.checker = { check: async (found) => { checked.add(found); return COMMIT; } };
  }
  const producer = new Producer(made);
  await producer.startup();
  producers.set(asked.name, { client: producer, checked });
}

function subscriptions(asked) {
  const filter = asked.sql
    ? new FilterExpression(asked.sql, SQL)
    : new FilterExpression(asked.expression || '*');
  return new Map([[asked.topic, filter]]);
}

async function simple(asked) {
  const made = { ...options, consumerGroup: asked.group, awaitDuration: 6000 };
  const client = new SimpleConsumer({ ...made, subscriptions: subscriptions(asked) });
  await client.startup();
  consumers.set(asked.name, { client });
}

async function receive({ client }, asked) {
  const over = Date.now() + asked.ms;
  const rows = [];
  while (rows.length < asked.count && Date.now() < over) {
    for (const each of await client.receive(16, asked.invisible_s * 1000)) {
      if (asked.change_s) await client.changeInvisibleDuration(each, asked.change_s * 1000);
      if (asked.ack) await client.ack(each);
      rows.push(row(each));
    }
  }
  return rows;
}

/** A push consumer: it refuses bodies of "fail…", and of "once…" one time. */
async function listen(asked) {
  const taken = new Noted();
  const consume = async (found) => {
    taken.add(found);
    const body = String(found.body);
    const refused = body.startsWith('fail') || (body.startsWith('once') && found.deliveryAttempt === 1);
    return refused ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
  };
  const made = { ...options, consumerGroup: asked.group, subscriptions: subscriptions(asked) };
  const client = new PushConsumer({ ...made, messageListener: { consume } });
  await client.startup();
  consumers.set(asked.name, { client, taken });
}

async function stop(name) {
  const all = consumers.has(name) ? consumers : producers;
  const { client } = all.get(name);
  all.delete(name);
  await client.shutdown();
}

async function work(asked) {
  const { name } = asked;
  switch (asked.do) {
    case 'begin':
      begin(asked);
      return {};
    case 'producer':
      await produce(asked);
      return {};
    case 'send': {
      const sent = [];
      for (const each of asked.messages) sent.push(await sendOne(producers.get(name).client, each));
      return { sent };
    }
    case 'recall': {
      const found = await producers.get(name).client.recallMessage(asked.topic, asked.handle);
      return { id: found.messageId };
    }
    case 'checked':
      return { checked: await producers.get(name).checked.wait(asked) };
    case 'simple':
      await simple(asked);
      return {};
    case 'receive':
      return { taken: await receive(consumers.get(name), asked) };
    case 'listen':
      await listen(asked);
      return {};
    case 'taken':
      return { taken: await consumers.get(name).taken.wait(asked) };
    case 'stop':
      await stop(name);
      return {};
    default:
      throw new Error(`unknown work: ${asked.do}`);
  }
}

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    let answer;
    try {
      answer = await work(JSON.parse(line));
    } catch (error) {
      answer = { error: String(error) };
    }
    process.stdout.write(`${JSON.stringify(answer)}\n`);
  }
  for (const name of [...consumers.keys(), ...producers.keys()]) {
    await stop(name).catch((error) => quiet.error(error));
  }
  process.exit(0);
}

process.on('unhandledRejection', (error) => quiet.error(error));
main();
