// Slanted lines where nothing is known. In: a rectangle in pixels of the canvas. Out: pixels.
const hatches = new Map<string, CanvasPattern | null>();

type Area = [x: number, y: number, width: number, height: number];

/** A tile of slanted lines, drawn once: line by line, a hole took more time each second than the plot itself. */
export function hatch(ctx: CanvasRenderingContext2D, area: Area, color: string): void {
  const key = `${color} ${devicePixelRatio}`;
  if (!hatches.has(key)) hatches.set(key, hatchTile(ctx, color));
  const pattern = hatches.get(key);
  if (!pattern) return;
  ctx.fillStyle = pattern;
  ctx.fillRect(...area);
}

/** The same in px, on a canvas that is scaled to them. */
export function hatchScaled(ctx: CanvasRenderingContext2D, area: Area, color: string): void {
  ctx.save();
  ctx.setTransform(1, 0, 0, 1, 0, 0);
  hatch(ctx, area.map((px) => px * (devicePixelRatio || 1)) as Area, color);
  ctx.restore();
}

function hatchTile(ctx: CanvasRenderingContext2D, color: string): CanvasPattern | null {
  const size = Math.round(7 * devicePixelRatio);
  const tile = new OffscreenCanvas(size, size);
  const draw = tile.getContext('2d');
  if (!draw) return null;
  draw.strokeStyle = color;
  draw.lineWidth = devicePixelRatio;
  draw.beginPath();
  // The corners belong to the lines of the neighbours.
  for (const from of [-size, 0, size]) {
    draw.moveTo(from - 1, size + 1);
    draw.lineTo(from + size + 1, -1);
  }
  draw.stroke();
  return ctx.createPattern(tile, 'repeat');
}
