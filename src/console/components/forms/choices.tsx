import { useId } from 'preact/hooks';

interface ChoicesProps<Name extends string> {
  legend: string;
  /** Names with a description of each. */
  options: Record<Name, string>;
  chosen: readonly Name[];
  onChange: (chosen: Name[]) => void;
  error?: string | undefined;
}

/** A group of check boxes. */
export function Choices<Name extends string>({
  legend,
  options,
  chosen,
  onChange,
  error,
}: ChoicesProps<Name>) {
  const id = useId();
  const names = Object.keys(options) as Name[];
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
                onChange(
                  names.filter((other) => (other === name ? checked : chosen.includes(other))),
                )
              }
            />
            <span>
              <code>{name}</code>
              <span class="hint">{options[name]}</span>
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
