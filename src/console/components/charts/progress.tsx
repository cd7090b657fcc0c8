/** Shows a progress bar with its percentage. `label` names it for screen readers. */
export function Progress({ percent, label }: { percent: number; label: string }) {
  return (
    <span class="progress">
      <progress value={percent} max={100} aria-label={label} />
      <span class="number">{Math.floor(percent)} %</span>
    </span>
  );
}
