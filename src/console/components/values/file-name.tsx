import { Name, seen } from './names.tsx';

/** A longer name has only its start and its end in sight. */
const LONGEST = 80;
const START = 45;
const END = 25;

/**
 * The name of a file, for a link in a list. A link shows the start and the end of a long name, and
 * the whole name while it has the focus. Screen readers always read the whole name, and a copied
 * selection has it.
 */
export function FileName({ of }: { of: string }) {
  const name = seen(of);
  const signs = Array.from(new Intl.Segmenter().segment(name), ({ segment }) => segment);
  if (signs.length <= LONGEST) return <Name of={of} />;
  return (
    <bdi dir="ltr" title={name}>
      {signs.slice(0, START).join('')}
      <span class="middle">{signs.slice(START, -END).join('')}</span>
      {signs.slice(-END).join('')}
    </bdi>
  );
}
