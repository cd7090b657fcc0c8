import { useRef, useState } from 'preact/hooks';
import type { Endpoint } from '../../../api/api-types.ts';
import { PROTOCOLS } from '../../../api/protocols.ts';
import { Field } from '../../../components/forms/field.tsx';
import { useUnsent } from '../../../session.tsx';
import { FileDialog } from './file-dialog.tsx';
import type { Place } from './place.ts';

interface PlaceFieldsProps {
  legend: string;
  /** A file to read, or a folder to write to. */
  pick: 'file' | 'folder';
  endpoints: Endpoint[];
  /** Null while nothing is chosen. */
  place: Place | null;
  onChange: (place: Place) => void;
  error: string | undefined;
}

export const CHOOSE = 'Choose an endpoint';
/** Options that are no endpoint. No name of one begins so. */
const NONE = '-';
const URI = '-uri';

const HINTS = {
  file: 'Below the base path of the endpoint',
  folder: 'End with a slash to keep the name of the source file',
};

/** Fields for an endpoint and a path below it, with a file browser; or for a whole URI. */
export function PlaceFields({ legend, pick, endpoints, place, onChange, error }: PlaceFieldsProps) {
  const [browsing, setBrowsing] = useState(false);
  const { endpoint, path } = place ?? { endpoint: null, path: '' };
  const initial = useRef(path).current;
  // A path that was picked is no input that the form notices.
  useUnsent(path !== '' && path !== '/' && path !== initial);

  function choose(name: string): void {
    const chosen = endpoints.find((known) => known.name === name) ?? null;
    onChange(chosen ? { endpoint: chosen, path: '/' } : { endpoint: null, path: '' });
  }

  return (
    <fieldset>
      <legend>{legend}</legend>
      <div class="place">
        <Field label="Endpoint" error={place ? undefined : error}>
          <select
            value={endpoint?.name ?? (place ? URI : NONE)}
            onChange={(event) => choose(event.currentTarget.value)}
          >
            {!place && <option value={NONE}>{CHOOSE}</option>}
            {endpoints.map(({ name, protocol }) => (
              <option key={name} value={name}>
                {name} ({PROTOCOLS[protocol].label})
              </option>
            ))}
            <option value={URI}>Another URI</option>
          </select>
        </Field>
        {place && (
          <Field
            label={endpoint ? 'Path' : 'URI'}
            hint={endpoint ? HINTS[pick] : undefined}
            error={error}
          >
            <input
              spellcheck={false}
              autoCapitalize="none"
              placeholder={endpoint ? undefined : 'sftp://files.example.com/out/report.csv'}
              value={path}
              onInput={(event) => onChange({ ...place, path: event.currentTarget.value })}
            />
          </Field>
        )}
        {endpoint && (
          <button type="button" onClick={() => setBrowsing(true)}>
            Browse<span class="visually-hidden"> {endpoint.name}</span>
          </button>
        )}
      </div>
      {endpoint?.paused && (
        <p class="notice warning">
          This endpoint is paused. The transfer waits until you resume it.
        </p>
      )}
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
