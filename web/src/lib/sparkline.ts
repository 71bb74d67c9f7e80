// A sparkline on a canvas. In: shares 0..1, null where nothing came. Out: a drawing. Why: a thousand small charts must be cheap.

interface Spark {
  values: readonly (number | null)[];
  ink: { line: string; gap: string };
}

const WIDTH = 116;
const HEIGHT = 22;

export function sparkline(canvas: HTMLCanvasElement, spark: Spark): { update: (spark: Spark) => void } {
  draw(canvas, spark);
  return { update: (next) => draw(canvas, next) };
}

/** A canvas of this size in px, in pixels of the screen. Setting the size clears it and costs time, so it is set only if
 * it changed. */
export function scaled(
  canvas: HTMLCanvasElement,
  width: number,
  height: number,
  settings?: CanvasRenderingContext2DSettings,
): CanvasRenderingContext2D | null {
  const scale = devicePixelRatio || 1;
  const [wide, high] = [Math.round(width * scale), Math.round(height * scale)];
  if (canvas.width !== wide || canvas.height !== high) [canvas.width, canvas.height] = [wide, high];
  const context = canvas.getContext('2d', settings);
  context?.setTransform(scale, 0, 0, scale, 0, 0);
  return context;
}

function draw(canvas: HTMLCanvasElement, { values, ink }: Spark): void {
  const context = scaled(canvas, WIDTH, HEIGHT);
  if (!context) return;
  context.clearRect(0, 0, WIDTH, HEIGHT);
  const step = WIDTH / Math.max(values.length, 1);
  context.fillStyle = ink.gap;
  context.fillRect(0, HEIGHT - 1, WIDTH, 1);
  context.fillStyle = ink.line;
  values.forEach((value, at) => {
    if (value === null) return;
    const height = Math.max(value > 0 ? 1 : 0, Math.min(value, 1) * (HEIGHT - 2));
    context.fillRect(at * step, HEIGHT - 1 - height, Math.max(step - 0.25, 0.75), height);
  });
}
