import type { ComponentChildren } from 'preact';

/** Lists names with their values. null shows as a dash; undefined is left out. */
export function Facts({ of }: { of: Record<string, ComponentChildren> }) {
  return (
    <dl class="facts">
      {Object.entries(of).map(
        ([name, value]) =>
          value !== undefined && (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value ?? '–'}</dd>
            </div>
          ),
      )}
    </dl>
  );
}
