// Compares what Perfetto's trace_processor finds in an export with cpumon's own slices of the same trace. In: the directory of
// trace_processor, then pairs of an export and the CSV of the slices. Out: a line for each pair; exit 1 if a figure differs.
//
// Equal for every thread and state: time, to 2 ns for each slice (events of the same time are written 1 ns apart where their order
// counts, and a thread begins 1 ns before its wakeup).
// A thread begins for Perfetto when it is first woken: the time from its birth, which cpumon has as blocked, is left out. So is what
// comes before Perfetto has any state of a thread, which can only be unknown.
import { readFileSync } from "node:fs";
import { TraceProcessor } from "./trace_processor.mjs";

// Perfetto's thread for what CPUs did at unknown times.
const UNKNOWN_TID = 2 ** 23 - 1;

const STATES = { Running: "running", R: "ready", "R+": "ready", S: "blocked", D: "blocked", T: "blocked", t: "blocked", I: "blocked", P: "unknown" };
// `ready` is one state however it began, and dead threads have none.
const OWN = { preempted: "ready" };

const THREADS = `select tid, upid is not null has_process, thread.start_ts - (select start_ts from trace_bounds) born_ns, thread_state.state,
  count() slices, sum(iif(dur < 0, (select end_ts from trace_bounds) - ts, dur)) total_ns
  from thread_state join thread using (utid) where tid not in (0, ${UNKNOWN_TID}) group by utid, thread_state.state`;
const FAULTS = "select name, value from stats where severity != 'info' and value != 0";

function csv(text) {
  const [header, ...lines] = text.trimEnd().split("\n").map((line) => [...line.matchAll(/("(?:[^"]|"")*"|[^,]*)(?:,|$)/g)].map(([, cell]) => cell));
  return lines.map((line) => Object.fromEntries(header.map((name, column) => [name, line[column].replace(/^"|"$/g, "")])));
}

class Sums extends Map {
  add(tid, state, total_ns, slices) {
    const sum = this.get(`${tid} ${state}`) ?? { total_ns: 0, slices: 0 };
    this.set(`${tid} ${state}`, { total_ns: sum.total_ns + total_ns, slices: sum.slices + slices });
  }
}

const [directory, ...files] = process.argv.slice(2);
let differ = 0;
for (let at = 0; at < files.length; at += 2) {
  const processor = await TraceProcessor.open(directory);
  await processor.load(readFileSync(files[at]));
  const faults = await processor.query(FAULTS);
  const [theirs, ours, threads, births] = [new Sums(), new Sums(), new Set(), new Set()];
  for (const { tid, has_process, born_ns, state, slices, total_ns } of await processor.query(THREADS)) {
    threads.add(Number(tid));
    if (has_process && born_ns !== null && born_ns > 0n) births.add(Number(tid));
    if (state !== "X") theirs.add(tid, STATES[state] ?? `${state}?`, Number(total_ns), Number(slices));
  }
  const seen = new Set();
  for (const slice of csv(readFileSync(files[at + 1], "utf8")).sort((a, b) => a.start_ns - b.start_ns || a.end_ns - b.end_ns)) {
    const who = `${slice.tid} ${slice.thread_start_ns}`;
    const isFirst = !seen.has(who);
    seen.add(who);
    if (isFirst && slice.state === "blocked" && births.has(Number(slice.tid))) continue;
    ours.add(slice.tid, OWN[slice.state] ?? slice.state, slice.end_ns - slice.start_ns, 1);
  }
  const none = { total_ns: 0, slices: 0 };
  const keys = [...new Set([...ours.keys(), ...theirs.keys()])].sort();
  const wrong = keys.filter((key) => {
    const [own, other] = [ours.get(key) ?? none, theirs.get(key) ?? none];
    const missing_ns = own.total_ns - other.total_ns;
    const isEqual = Math.abs(missing_ns) <= 2 * (own.slices + other.slices);
    return !isEqual && !(key.endsWith("unknown") && missing_ns > 0);
  });
  console.log(`${files[at]}: ${threads.size} threads, ${births.size} of them born in it; ${keys.length} times by thread and state, ${wrong.length} differ`);
  for (const key of wrong) console.log(`  ${key}: Perfetto ${theirs.get(key)?.total_ns ?? 0} ns, cpumon ${ours.get(key)?.total_ns ?? 0} ns`);
  for (const { name, value } of faults) console.log(`  Perfetto's stats: ${name} = ${value}`);
  differ += wrong.length + faults.length;
}
process.exit(differ > 0 ? 1 : 0);
