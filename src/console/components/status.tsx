export type Tone = 'neutral' | 'active' | 'good' | 'warning' | 'bad';

const MARKS: Record<Tone, string> = { neutral: '○', active: '◐', good: '●', warning: '▲', bad: '■' };

/** A state in a word, a form and a colour. */
export function Status({ tone, children }: { tone: Tone; children: string }) {
  return (
    <span class={`status ${tone}`}>
      <span aria-hidden="true">{MARKS[tone]}</span> {children}
    </span>
  );
}
