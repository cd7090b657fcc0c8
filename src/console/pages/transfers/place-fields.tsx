import { useState } from 'preact/hooks';
import type { Endpoint } from '../../api/operations.ts';
import { Field } from '../../components/field.tsx';
import { FileDialog } from './file-dialog.tsx';
import type { Place } from './place.ts';

interface PlaceFieldsProps {
  legend: string;
  /** A file to read, or where one is written. */
  pick: 'file' | 'folder';
  endpoints: Endpoint[];
  place: Place;
  onChange: (place: Place) => void;
  error: string | undefined;
}

const HINTS = {
  file: 'The file, below the base path of the endpoint',
  folder: 'A path that ends in a slash takes the name of the source file',
};

/** Asks for an endpoint and a path below it, which can be looked for on the server; or for a whole URI. */
export function PlaceFields({ legend, pick, endpoints, place, onChange, error }: PlaceFieldsProps) {
  const [browsing, setBrowsing] = useState(false);
  const { endpoint, path } = place;

  function choose(name: string): void {
    const chosen = endpoints.find((known) => known.name === name) ?? null;
    onChange(chosen ? { endpoint: chosen, path: '/' } : { endpoint: null, path: '' });
  }

  return (
    <fieldset>
      <legend>{legend}</legend>
      <div class="place">
        <Field label="Endpoint">
          <select value={endpoint?.name ?? ''} onChange={(event) => choose(event.currentTarget.value)}>
            {endpoints.map(({ name, protocol }) => (
              <option key={name} value={name}>
                {name} ({protocol})
              </option>
            ))}
            <option value="">Another URI</option>
          </select>
        </Field>
        <Field label={endpoint ? 'Path' : 'URI'} hint={endpoint ? HINTS[pick] : undefined} error={error}>
          <input
            spellcheck={false}
            autoCapitalize="none"
            placeholder={endpoint ? undefined : 'sftp://files.example.com/out/report.csv'}
            value={path}
            onInput={(event) => onChange({ ...place, path: event.currentTarget.value })}
          />
        </Field>
        {endpoint && (
          <button type="button" onClick={() => setBrowsing(true)}>
            Browse<span class="visually-hidden"> {endpoint.name}</span>
          </button>
        )}
      </div>
      {endpoint?.paused && <p class="notice warning">This endpoint is paused: the transfer waits until it is resumed.</p>}
      {endpoint && browsing && (
        <FileDialog
          endpoint={endpoint}
          pick={pick}
          start={path}
          onClose={() => setBrowsing(false)}
          onPick={(picked) => {
            onChange({ endpoint, path: picked });
            setBrowsing(false);
          }}
        />
      )}
    </fieldset>
  );
}
