// What lies over the rows: the selected area, the selected slice, arrows from who woke to who was woken. In: a scene. Out: pixels.
import type { TraceSlice } from '../lib/api';
import { cssColor, lineColor } from '../lib/colors';
import { xOf, yOf, type Scene } from './draw';
import { AXIS, type Row } from './rows';
import type { Span } from './window';

type Context = CanvasRenderingContext2D;

export interface Area extends Span {
  cpus: readonly number[];
  threads: readonly number[];
}

export function drawArea(context: Context, scene: Scene, area: Area): void {
  const [left, right] = [Math.max(scene.left, xOf(scene, area.from)), Math.min(scene.width, xOf(scene, area.until))];
  if (right < left) return;
  const rows = scene.rows.filter((row) => (row.kind === 'cpu' ? area.cpus : area.threads).includes(row.id));
  context.save();
  context.beginPath();
  context.rect(scene.left, AXIS, scene.width, scene.height);
  context.clip();
  for (const row of rows.length > 0 ? rows : scene.rows) {
    const y = yOf(scene, row);
    context.globalAlpha = 0.18;
    context.fillStyle = lineColor(0);
    context.fillRect(left, y, right - left, row.height);
  }
  context.globalAlpha = 1;
  context.fillStyle = lineColor(0);
  for (const x of [left, right]) context.fillRect(x - 0.5, AXIS, 1, scene.height);
  context.restore();
}

const rowOf = (scene: Scene, kind: Row['kind'], id: number | null | undefined): Row | undefined =>
  scene.rows.find((row) => row.kind === kind && row.id === id);

function arrow(context: Context, scene: Scene, from: [number, Row], to: [number, Row]): void {
  const middle = (row: Row): number => yOf(scene, row) + row.height / 2;
  const [x0, y0, x1, y1] = [xOf(scene, from[0]), middle(from[1]), xOf(scene, to[0]), middle(to[1])];
  const bend = Math.max(12, Math.abs(x1 - x0) / 2);
  context.beginPath();
  context.moveTo(x0, y0);
  context.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1);
  context.stroke();
  context.beginPath();
  context.moveTo(x1, y1);
  context.lineTo(x1 - 7, y1 - 4);
  context.lineTo(x1 - 7, y1 + 4);
  context.fill();
}

export function drawSlice(context: Context, scene: Scene, slice: TraceSlice): void {
  const own = [
    rowOf(scene, 'thread', slice.who.thread),
    slice.state === 'running' ? rowOf(scene, 'cpu', slice.cpu) : undefined,
  ];
  context.save();
  context.beginPath();
  context.rect(scene.left, AXIS, scene.width, scene.height);
  context.clip();
  context.strokeStyle = cssColor('--text');
  context.fillStyle = cssColor('--text');
  const [left, right] = [xOf(scene, slice.from_ns), xOf(scene, slice.from_ns + slice.length_ns)];
  context.lineWidth = 2;
  for (const row of own)
    if (row) context.strokeRect(left, yOf(scene, row) + 1, Math.max(2, right - left), row.height - 2);
  context.lineWidth = 1.5;
  const home = own[0] ?? own[1];
  const { wait } = slice;
  if (wait && home) {
    const waker = rowOf(scene, 'thread', wait.waker?.thread) ?? rowOf(scene, 'cpu', wait.waker_cpu);
    if (waker)
      arrow(context, scene, [wait.from_ns, waker], [slice.state === 'running' ? slice.from_ns : wait.from_ns, home]);
  }
  for (const { who, at_ns, ran_ns, cpu } of slice.woke.slice(0, 16)) {
    const row = rowOf(scene, 'thread', who.thread) ?? rowOf(scene, 'cpu', cpu);
    if (row && home) arrow(context, scene, [at_ns, home], [ran_ns ?? at_ns, row]);
  }
  context.restore();
}
