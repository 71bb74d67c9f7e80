// The position of the 3D picture's camera, as text in the address. In: text from outside. Out: a position, or none.

/** Degrees above the floor and around the bars, how far away, and the point in its centre; absent: the picture's middle. */
export interface Camera {
  alpha: number;
  beta: number;
  distance: number;
  center?: readonly [number, number, number];
}

export const NEAREST = 80;
export const FARTHEST = 600;
/** Farther beside the bars there is nothing to see. */
const ASIDE = 300;

const within = (value: number, least: number, most: number): number => Math.min(most, Math.max(least, value));

/** Degrees around, -180 to 180. */
function around(degrees: number): number {
  return degrees - 360 * Math.round(degrees / 360);
}

/** The nearest place that the camera can have. */
export function allowed({ alpha, beta, distance, center }: Camera): Camera {
  const place = { alpha: within(alpha, 0, 90), beta: around(beta), distance: within(distance, NEAREST, FARTHEST) };
  if (!center) return place;
  const [x, y, z] = center;
  return { ...place, center: [within(x, -ASIDE, ASIDE), within(y, -ASIDE, ASIDE), within(z, -ASIDE, ASIDE)] };
}

export function parseCamera(text: string | undefined): Camera | null {
  const numbers = (text ?? '').split(',').map((part) => (/^-?\d{1,4}$/.test(part) ? Number(part) : NaN));
  if (numbers.some(Number.isNaN)) return null;
  const [alpha, beta, distance, x, y, z] = numbers as [number, number, number, number, number, number];
  if (numbers.length === 3) return allowed({ alpha, beta, distance });
  return numbers.length === 6 ? allowed({ alpha, beta, distance, center: [x, y, z] }) : null;
}

export function cameraText({ alpha, beta, distance, center }: Camera): string {
  return [alpha, around(beta), distance, ...(center ?? [])].map((number) => String(Math.round(number) || 0)).join(',');
}
