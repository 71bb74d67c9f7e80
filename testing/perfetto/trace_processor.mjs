// Perfetto's trace_processor (a WebAssembly module and its loader, as its page ships them) in Node. In: the directory that holds
// `engine_bundle.js` and `trace_processor.wasm`. Requests and answers are the messages of its `trace_processor.proto`.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { runInThisContext } from "node:vm";

// `TraceProcessorRpc.TraceProcessorMethod`.
const [APPEND, FINALIZE, QUERY] = [1, 2, 3];
const PART_BYTES = 1 << 22;

function varint(value) {
  const bytes = [];
  for (let left = BigInt(value); ; left >>= 7n) {
    if (left < 0x80n) return Buffer.from([...bytes, Number(left)]);
    bytes.push(Number(left & 0x7fn) | 0x80);
  }
}
const number = (field, value) => Buffer.concat([varint(field << 3), varint(value)]);
const bytes = (field, value) => Buffer.concat([varint((field << 3) | 2), varint(value.length), value]);

function readVarint(from, at) {
  let value = 0n;
  for (let shift = 0n; ; shift += 7n) {
    const byte = from[at++];
    value |= BigInt(byte & 0x7f) << shift;
    if (byte < 0x80) return [BigInt.asIntN(64, value), at];
  }
}

// The fields of a message: [number, value] each, a value being a bigint or bytes.
function* fields(message) {
  for (let at = 0; at < message.length; ) {
    let key, value;
    [key, at] = readVarint(message, at);
    const kind = Number(key & 7n);
    if (kind === 0) {
      [value, at] = readVarint(message, at);
    } else {
      let length = BigInt(kind === 1 ? 8 : 4);
      if (kind === 2) [length, at] = readVarint(message, at);
      value = message.subarray(at, (at += Number(length)));
    }
    yield [Number(key >> 3n), value];
  }
}
const all = (message, field) => [...fields(message)].filter(([at]) => at === field).map(([, value]) => value);

function* varints(packed) {
  for (let at = 0, value; at < packed.length; ) {
    [value, at] = readVarint(packed, at);
    yield value;
  }
}

// `QueryResult`: the rows of its batches, an object each. Integers are bigints.
function rows(results) {
  const names = results.flatMap((result) => all(result, 1)).map(String);
  const cells = [];
  for (const batch of results.flatMap((result) => all(result, 3))) {
    const [integers, floats] = [varints(Buffer.concat(all(batch, 2))), Buffer.concat(all(batch, 3))];
    const strings = Buffer.concat(all(batch, 5)).toString().split("\0");
    let [float, string] = [0, 0];
    for (const kind of varints(Buffer.concat(all(batch, 1)))) {
      if (kind === 2n) cells.push(integers.next().value);
      else if (kind === 3n) cells.push(floats.readDoubleLE(8 * float++));
      else if (kind === 4n) cells.push(strings[string++]);
      else cells.push(null);
    }
  }
  const count = cells.length / Math.max(1, names.length);
  return Array.from({ length: count }, (_, row) =>
    Object.fromEntries(names.map((name, column) => [name, cells[row * names.length + column]])),
  );
}

export class TraceProcessor {
  #sequence = 0;
  #port = {
    postMessage: (answer) => {
      // `TraceProcessorRpcStream`: its answers, each a message.
      for (const [, message] of fields(Buffer.from(answer))) this.#answers.push(message);
    },
  };
  #answers = [];

  static async open(directory) {
    // What the loader expects of a worker: it refuses to run in Node.
    process.type = "renderer";
    const read = (url) => readFileSync(join(directory, String(url).split("/").at(-1)));
    globalThis.WorkerGlobalScope = Object;
    globalThis.self = globalThis;
    globalThis.location = { href: "http://localhost/" };
    globalThis.XMLHttpRequest = class {
      open = (_, url) => (this.response = read(url));
      send() {}
    };
    runInThisContext(read("engine_bundle.js").toString());
    const processor = new TraceProcessor();
    globalThis.onmessage({ data: processor.#port });
    // It is ready when what it queued is done.
    await new Promise((resolve) => setTimeout(resolve));
    return processor;
  }

  async #ask(method, argument = Buffer.alloc(0)) {
    const request = Buffer.concat([number(1, ++this.#sequence), number(2, method), argument]);
    this.#answers = [];
    await this.#port.onmessage({ data: new Uint8Array(bytes(1, request)) });
    for (const answer of this.#answers) {
      for (const fatal of all(answer, 5)) throw new Error(`trace_processor: ${fatal}`);
    }
    return this.#answers;
  }

  async load(trace) {
    for (let at = 0; at < trace.length; at += PART_BYTES) {
      await this.#ask(APPEND, bytes(101, trace.subarray(at, at + PART_BYTES)));
    }
    await this.#ask(FINALIZE);
  }

  async query(sql) {
    const results = (await this.#ask(QUERY, bytes(103, bytes(1, Buffer.from(sql))))).flatMap((answer) => all(answer, 203));
    for (const error of results.flatMap((result) => all(result, 2))) throw new Error(`${error}: ${sql}`);
    return rows(results);
  }
}
