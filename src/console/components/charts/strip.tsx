import { MARKS, type Tone } from '../values/status.tsx';

interface StripProps {
  /** Names the strip for screen readers. */
  label: string;
  /** Oldest first. */
  marks: { id: string; tone: Tone; text: string }[];
}

/** Shows how the last few of something ended: one mark for each, with its text on hover. */
export function Strip({ label, marks }: StripProps) {
  if (marks.length === 0) return <>–</>;
  return (
    <ol class="strip" aria-label={label}>
      {marks.map(({ id, tone, text }) => (
        <li key={id} class={`status ${tone}`} title={text}>
          <span aria-hidden="true">{MARKS[tone]}</span>
          <span class="visually-hidden">{text}</span>
        </li>
      ))}
    </ol>
  );
}
