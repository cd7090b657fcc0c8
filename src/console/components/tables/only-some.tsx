import { Empty } from '../feedback/empty.tsx';

interface OnlySomeProps {
  /** What the list is filtered for, such as `unreachable endpoints`. */
  what: string;
  found: number;
  /** The whole list. */
  all: { href: string; label: string };
}

/** Says that a list shows only some of its rows, and leads to all of them. */
export function OnlySome({ what, found, all: { href, label } }: OnlySomeProps) {
  return (
    <p class="notice">
      <span>
        {found === 0 ? `There are no ${what}.` : `Shows only ${what}.`} <a href={href}>{label}</a>
      </span>
    </p>
  );
}

/** Replaces a list in which a search found nothing. */
export function NoMatch({ what, all: { href, label } }: Pick<OnlySomeProps, 'what' | 'all'>) {
  return (
    <Empty title={`No ${what} match`}>
      <p>
        <a href={href}>{label}</a>
      </p>
    </Empty>
  );
}
