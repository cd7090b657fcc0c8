import type { ComponentChildren } from 'preact';
import { useId, useState } from 'preact/hooks';
import { Icon } from '../values/icon.tsx';

interface MoreFiltersProps {
  /** How many of them limit the list now. */
  set: number;
  children: ComponentChildren;
}

/** Filters of a list. A narrow screen shows them on request: they would hide the first rows. */
export function MoreFilters({ set, children }: MoreFiltersProps) {
  const [open, setOpen] = useState(false);
  const id = useId();
  return (
    <>
      <button
        type="button"
        class="more-filters"
        aria-expanded={open}
        aria-controls={id}
        onClick={() => setOpen(!open)}
      >
        <Icon name={open ? 'close' : 'filters'} /> Filters{set > 0 && ` (${set} set)`}
      </button>
      <div id={id} class="more" data-open={open}>
        {children}
      </div>
    </>
  );
}
