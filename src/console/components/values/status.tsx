export type Tone = 'neutral' | 'active' | 'good' | 'warning' | 'bad';

export const MARKS: Record<Tone, string> = {
  neutral: '○',
  active: '◐',
  good: '●',
  warning: '▲',
  bad: '■',
};

/** Shows a state by word, shape and colour. */
export function Status({ tone, children }: { tone: Tone; children: string }) {
  return (
    <span class={`status ${tone}`}>
      <span aria-hidden="true">{MARKS[tone]}</span> {children}
    </span>
  );
}
