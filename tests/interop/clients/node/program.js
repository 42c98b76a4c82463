'use strict';

// RocketMQ's client in JavaScript, for tests of the server. A line of stdin is a JSON object whose
// "do" names the work; the answer is a line of JSON, with "error" where the work failed. Ends with
// stdin. The programs in the other languages take the same lines.

const readline = require('readline');
const { Consumer, Message, Producer } = require('ali-ons');

// Answers alone go to stdout.
const quiet = {
  debug() {},
  info() {},
  warn: (...said) => console.error(...said),
  error: (...said) => console.error(...said),
};
const producers = new Map();
const consumers = new Map();
let nameServer = '';

function options(asked) {
  const found = {
    nameSrv: nameServer,
    logger: quiet,
    // Asked for the name server's address alone, which is known.
    httpclient: { request: () => Promise.reject(new Error('no address is to be asked for')) },
  };
  if (asked.instance) found.instanceName = asked.instance;
  if (asked.namespace) found.namespace = asked.namespace;
  if (asked.access_key) {
    found.accessKeyId = asked.access_key;
    found.accessKeySecret = asked.secret_key;
  }
  if (asked.max_size) found.compressMsgBodyOverHowmuch = asked.max_size;
  return found;
}

function message(asked) {
  const made = new Message(asked.topic, asked.tags || '', asked.body);
  if (asked.keys) made.keys = asked.keys.split(' ');
  if (asked.level) made.delayTimeLevel = asked.level;
  if (asked.shard) made.shardingKey = asked.shard;
  Object.assign(made.properties, asked.properties);
  return made;
}

async function send({ name, how = 'sync', messages }) {
  const one = async (each) => {
    try {
      const found = await producers.get(name).send(message(each));
      return {
        status: found.sendStatus,
        msg_id: found.msgId,
        queue_id: Number(found.messageQueue.queueId),
        queue_offset: found.queueOffset,
      };
    } catch (error) {
      return { error: String(error) };
    }
  };
  if (how === 'async') return Promise.all(messages.map(one));
  if (how !== 'sync' && how !== 'shard') throw new Error(`unknown way to send: ${how}`);
  const sent = [];
  for (const each of messages) sent.push(await one(each));
  return sent;
}

/** What was taken so far, for who waits for it. */
class Taken {
  constructor() {
    this.all = [];
    this.told = () => {};
  }

  add(row) {
    this.all.push(row);
    this.told();
  }

  /** All there is, once that are `count` or the time is over. */
  async wait(count, ms) {
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

/**
 * A push consumer. It refuses bodies that begin with "fail", and those that begin with "once" when
 * they come for the first time.
 */
async function listen(asked) {
  const from = asked.start === 'last' ? 'CONSUME_FROM_LAST_OFFSET' : 'CONSUME_FROM_FIRST_OFFSET';
  const made = { ...options(asked), consumerGroup: asked.group, consumeFromWhere: from };
  if (asked.broadcast) made.isBroadcast = true;
  if (asked.max_reconsume !== undefined) made.maxReconsumeTimes = asked.max_reconsume;
  const consumer = new Consumer(made);
  consumer.on('error', (error) => quiet.error(error));
  const taken = new Taken();
  const condition = asked.sql
    ? { expressionType: 'SQL92', subString: asked.sql }
    : asked.expression || '*';
  consumer.subscribe(asked.topic, condition, async (found) => {
    const body = String(found.body);
    taken.add({
      topic: found.topic,
      queue_id: found.queueId,
      queue_offset: Number(found.queueOffset),
      msg_id: found.msgId,
      reconsume_times: found.reconsumeTimes,
      body,
      tags: found.tags,
      keys: found.keys,
      properties: found.properties,
    });
    const first = found.reconsumeTimes === 0;
    // Thrown, as what a listener returns is not asked when a message comes again.
    if (body.startsWith('fail') || (first && body.startsWith('once'))) {
      throw new Error(`refused: ${body}`);
    }
  });
  await consumer.ready();
  consumers.set(asked.name, { consumer, taken });
}

async function stop(name) {
  if (consumers.has(name)) {
    await consumers.get(name).consumer.close();
    consumers.delete(name);
  } else {
    await producers.get(name).close();
    producers.delete(name);
  }
}

async function work(asked) {
  switch (asked.do) {
    case 'begin':
      nameServer = asked.name_server;
      return {};
    case 'producer': {
      const producer = new Producer({ ...options(asked), producerGroup: asked.group });
      producer.on('error', (error) => quiet.error(error));
      await producer.ready();
      producers.set(asked.name, producer);
      return {};
    }
    case 'send':
      return { sent: await send(asked) };
    case 'listen':
      await listen(asked);
      return {};
    case 'taken':
      return { taken: await consumers.get(asked.name).taken.wait(asked.count, asked.ms) };
    case 'stop':
      await stop(asked.name);
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
