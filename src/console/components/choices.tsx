import { useId } from 'preact/hooks';

interface ChoicesProps<Name extends string> {
  legend: string;
  /** Names with what is said of each. */
  of: Record<Name, string>;
  chosen: readonly Name[];
  onChange: (chosen: Name[]) => void;
  error?: string | undefined;
}

/** A group of boxes of which any number is ticked. */
export function Choices<Name extends string>({ legend, of, chosen, onChange, error }: ChoicesProps<Name>) {
  const id = useId();
  const names = Object.keys(of) as Name[];
  return (
    <fieldset aria-describedby={error && id}>
      <legend>{legend}</legend>
      <div class="choices">
        {names.map((name) => (
          <label class="choice" key={name}>
            <input
              type="checkbox"
              checked={chosen.includes(name)}
              aria-invalid={error ? true : undefined}
              onChange={({ currentTarget: { checked } }) =>
                onChange(names.filter((other) => (other === name ? checked : chosen.includes(other))))
              }
            />
            <span>
              <code>{name}</code>
              <span class="hint">{of[name]}</span>
            </span>
          </label>
        ))}
      </div>
      {error && (
        <p class="error" id={id}>
          {error}
        </p>
      )}
    </fieldset>
  );
}
