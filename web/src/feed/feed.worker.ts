// The thread beside the page: passes orders to a FeedWorker, and its reports back without copying their arrays.
import { FeedWorker } from './feed-worker';
import type { Order, Report } from './messages';

const worker = new FeedWorker((report) => self.postMessage(report, { transfer: transfers(report) }));

self.onmessage = (event: MessageEvent<Order>) => void worker.obey(event.data);

function transfers(report: Report): Transferable[] {
  if (report.is !== 'snapshot' && report.is !== 'view') return [];
  const { keys, owners, marks, depths, numbers: values, texts: words, flags } = report.view;
  return [keys, owners, marks, depths, values, words, flags].map((array) => array.buffer as ArrayBuffer);
}
