import { expect, it } from 'vitest';
import { cameraText, parseCamera } from './camera';

it('writes a camera to the address and reads it back', () => {
  for (const text of ['26,28,250', '0,-180,80', '90,0,600', '26,28,250,8,-12,0']) {
    expect(cameraText(parseCamera(text)!)).toBe(text);
  }
  expect(cameraText({ alpha: 25.6, beta: 388.4, distance: 250.2 })).toBe('26,28,250');
  expect(cameraText({ alpha: -0.2, beta: -0.4, distance: 99.9 })).toBe('0,0,100');
});

it('keeps the camera where there is something to see, whatever the address says', () => {
  expect(cameraText(parseCamera('999,725,1')!)).toBe('90,5,80');
  expect(cameraText(parseCamera('-5,-190,9999,-999,0,999')!)).toBe('0,170,600,-300,0,300');
  for (const text of [
    undefined,
    '',
    '1,2',
    '1,2,3,4',
    '1,2,x',
    '1e3,2,3',
    '1,2,3,4,5,6,7',
    ',,',
    '1,2,Infinity',
    '1, 2,3',
  ]) {
    expect(parseCamera(text)).toBeNull();
  }
});
