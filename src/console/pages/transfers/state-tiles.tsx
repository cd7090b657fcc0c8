import { Shares } from '../../components/charts/shares.tsx';
import { Status, type Tone } from '../../components/values/status.tsx';
import { labelOf, STATUSES, type TransferStatus, toneOf } from './states.tsx';

/** A tile has no room for this many in the large font. */
const LARGE = 100_000;

interface Tile {
  label: string;
  tone: Tone;
  /** Undefined until it is known. */
  count: number | undefined;
  /** The list of these transfers. Null if there is none. */
  href: string | null;
}

interface StateTilesProps {
  total: number | undefined;
  /** The number of transfers in each state. Undefined until it is known. */
  counts: Record<TransferStatus, number> | undefined;
  /** Returns the address of the list of a state, or of all. */
  listOf: (status?: TransferStatus) => string;
  /** Tiles of what became no transfer. */
  others?: Tile[];
}

/** Counts transfers by state, as a bar and as tiles that lead to their lists. */
export function StateTiles({ total, counts, listOf, others = [] }: StateTilesProps) {
  const tiles: Tile[] = [
    ...STATUSES.map((status) => ({
      label: labelOf(status),
      tone: toneOf(status),
      count: counts?.[status],
      href: listOf(status),
    })),
    ...others,
  ];
  return (
    <>
      <Shares
        shares={tiles.map(({ label, tone, count = 0 }) => ({
          text: `${label}: ${count.toLocaleString('en')}`,
          size: count,
          tone,
        }))}
      />
      <ul class={total !== undefined && total >= LARGE ? 'tiles dense' : 'tiles'}>
        {[{ label: 'All', tone: 'neutral' as const, count: total, href: listOf() }, ...tiles].map(
          ({ label, tone, count, href }) => {
            const content = (
              <>
                <Status tone={tone}>{label}</Status>{' '}
                <strong class="number">
                  {count === undefined ? '–' : count.toLocaleString('en')}
                </strong>
              </>
            );
            return (
              <li key={label}>
                {href === null ? <div>{content}</div> : <a href={href}>{content}</a>}
              </li>
            );
          },
        )}
      </ul>
    </>
  );
}
