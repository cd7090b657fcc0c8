import type { FileList } from '../../api/api-types.ts';

export type FileEntry = FileList['data'][number];
export type Order = 'name' | 'newest' | 'oldest' | 'largest' | 'smallest';

type Compare = (a: FileEntry, b: FileEntry) => number;

const byName: Compare = (a, b) => a.name.localeCompare(b.name, undefined, { numeric: true });
const bySize: Compare = (a, b) => (a.size ?? 0) - (b.size ?? 0);
const byTime: Compare = (a, b) => timeOf(a) - timeOf(b);

export const ORDERS: Record<Order, { label: string; compare: Compare }> = {
  name: { label: 'Name', compare: byName },
  newest: { label: 'Newest first', compare: (a, b) => byTime(b, a) },
  oldest: { label: 'Oldest first', compare: byTime },
  largest: { label: 'Largest first', compare: (a, b) => bySize(b, a) },
  smallest: { label: 'Smallest first', compare: bySize },
};

/** Returns the entries whose name has the text, in any case: folders first, then by the order. */
export function found(entries: FileEntry[], text: string, order: Order): FileEntry[] {
  const wanted = text.trim().toLowerCase();
  const rank = ({ type }: FileEntry) => (type === 'directory' ? 0 : 1);
  return entries
    .filter(({ name }) => name.toLowerCase().includes(wanted))
    .sort((a, b) => rank(a) - rank(b) || ORDERS[order].compare(a, b) || byName(a, b));
}

function timeOf({ modified_at }: FileEntry): number {
  return modified_at === null ? 0 : Date.parse(modified_at);
}
