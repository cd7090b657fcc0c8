import { many } from '../../../components/values/units.ts';

/** How many rows one press shows. */
export const STEP = 200;

interface MoreButtonProps {
  /** How many rows a long list leaves out. */
  hidden: number;
  /** What they are, such as `earlier attempt`, and their plural. */
  what: [one: string, several: string];
  onMore: () => void;
}

/** Stands for the rows that a long list leaves out, and shows more of them. */
export function MoreButton({ hidden, what, onMore }: MoreButtonProps) {
  const all = many(hidden, ...what);
  return (
    <button type="button" onClick={onMore}>
      {hidden > STEP ? `Show ${STEP} of ${all}` : `Show ${all}`}
    </button>
  );
}
