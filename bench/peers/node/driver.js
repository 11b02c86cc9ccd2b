// SPDX-License-Identifier: MIT
// The driver of the Node peers: reads requests, answers each with a line of JSON (see ../README.md). Threads are
// asynchronous functions here: Node has one thread. process.hrtime is CLOCK_MONOTONIC, the clock of the protocol.
'use strict';

const readline = require('readline');
const Redis = require('ioredis');

const LEASE_MS = 30000;

function connect(url) {
  const redis = new (Redis.default || Redis)(url);
  redis.on('error', fail);
  return redis;
}

// A peer opens a client; a client takes a name and gives back a function that releases it.
const peers = {
  redlock: {
    package: 'redlock',
    async open(url) {
      const Redlock = require('redlock');
      const redis = connect(url);
      await redis.ping();
      // The default gives up after 10 tries.
      const redlock = new Redlock([redis], { retryCount: -1 });
      return async (name) => {
        const lock = await redlock.lock(name, LEASE_MS);
        return () => lock.unlock();
      };
    },
  },
  'redis-semaphore': {
    package: 'redis-semaphore',
    async open(url) {
      const { Mutex } = require('redis-semaphore');
      const redis = connect(url);
      await redis.ping();
      return async (name) => {
        // The default gives up after 10 s.
        const mutex = new Mutex(redis, name, { lockTimeout: LEASE_MS, acquireTimeout: 3600000 });
        await mutex.acquire();
        return () => mutex.release();
      };
    },
  },
};

function fail(error) {
  process.stderr.write(`${error && error.message ? error.message : error}\n`);
  process.exit(1);
}

const now = () => process.hrtime.bigint();
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

class Request {
  constructor(line) {
    const [word, ...pairs] = line.trim().split(/ +/);
    this.word = word;
    this.values = new Map(pairs.map((pair) => pair.split(/=(.*)/, 2)));
  }

  text(key, fallback) {
    return this.values.has(key) ? this.values.get(key) : fallback;
  }

  number(key, fallback) {
    return this.values.has(key) ? Number(this.values.get(key)) : fallback;
  }
}

class Driver {
  constructor(peer, url) {
    this.peer = peer;
    this.url = url;
    this.clients = [];
    this.held = [];
  }

  async client(i) {
    while (this.clients.length <= i) this.clients.push(await this.peer.open(this.url));
    return this.clients[i];
  }

  async pair(request) {
    const take = await this.client(0);
    const name = request.text('name', 'pair');
    const n = request.number('n', 1000);
    const end = now() + BigInt(request.number('ms', 60000)) * 1000000n;
    const took = [];
    while (took.length < n && now() < end) {
      const start = now();
      const give = await take(name);
      await give();
      took.push(Number(now() - start));
    }
    return { ns: took };
  }

  async threads(request) {
    const take = await this.client(0);
    let pairs = 0;
    let stop = false;
    const names = Array.from({ length: request.number('threads', 1) }, (_, i) => `${request.text('name', 'threads')}/${i}`);
    await Promise.all(names.map(async (name) => (await take(name))()));
    const began = now();
    const work = names.map(async (name) => {
      while (!stop) {
        const give = await take(name);
        await give();
        pairs++;
      }
    });
    await sleep(request.number('ms', 1000));
    stop = true;
    await Promise.all(work);
    return { pairs, ns: Number(now() - began) };
  }

  async contend(request) {
    const n = request.number('clients', 1);
    await this.client(n - 1);
    return { contenders: await Promise.all(this.clients.slice(0, n).map((take) => contendAlone(take, request))) };
  }

  async hold(request) {
    const take = await this.client(0);
    const n = request.number('n', 1);
    for (let i = 0; i < n; i++) this.held.push(await take(`${request.text('name', 'hold')}/${i}`));
    return { held: n };
  }

  async drop() {
    for (const give of this.held) await give();
    this.held = [];
    return {};
  }

  async answer(line) {
    const request = new Request(line);
    const known = ['pair', 'threads', 'contend', 'hold', 'drop'];
    if (!known.includes(request.word) || request.text('mode', 'write') !== 'write') return { unsupported: true };
    return this[request.word](request);
  }
}

async function contendAlone(take, request) {
  const n = request.number('n', 100);
  const name = request.text('name', 'contend');
  const hold = request.number('hold_us', 0) / 1000;
  const gap = request.number('gap_us', 0) / 1000;
  const at = BigInt(request.text('at', now().toString()));
  const limit = request.number('limit_ms', 10000) * 1e6;
  const since = () => Number(now() - at);
  const turns = [];
  await sleep(Math.max(0, -since() / 1e6));
  while (turns.length < 3 * n && since() < limit) {
    const asked = since();
    const give = await take(name);
    const got = since();
    if (hold > 0) await sleep(hold);
    turns.push(asked, got, since());
    await give();
    if (gap > 0) await sleep(gap);
  }
  return { finish: since(), turns };
}

async function main() {
  const options = {};
  for (let i = 2; i + 1 < process.argv.length; i += 2) options[process.argv[i]] = process.argv[i + 1];
  const peer = peers[options['--peer']];
  if (!peer) fail(`there is no peer ${options['--peer']}`);
  const driver = new Driver(peer, options['--url']);
  await driver.client(0);
  const { version } = require(`${peer.package}/package.json`);
  const client = require('ioredis/package.json').version;
  process.stdout.write(`${JSON.stringify({ version: `${version}, ioredis ${client}, Node ${process.versions.node}` })}\n`);
  for await (const line of readline.createInterface({ input: process.stdin })) {
    process.stdout.write(`${JSON.stringify(await driver.answer(line))}\n`);
  }
  process.exit(0);
}

main().catch(fail);
