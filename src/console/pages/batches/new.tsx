import { useState } from 'preact/hooks';
import type { Priority } from '../../api/api-types.ts';
import { call } from '../../api/client.ts';
import { useIdempotencyKey } from '../../api/use-idempotency-key.ts';
import { CloseButton } from '../../components/dialogs/dialog.tsx';
import { Checkbox } from '../../components/forms/checkbox.tsx';
import { Field } from '../../components/forms/field.tsx';
import { Form } from '../../components/forms/form.tsx';
import {
  AFTER_FIELDS,
  AfterFields,
  chosenAfter,
  NOTHING_AFTER,
} from '../transfers/after-fields.tsx';
import { CommonOptionFields, chosen, NO_OPTIONS } from '../transfers/option-fields.tsx';
import { PriorityField } from '../transfers/priority-field.tsx';

/** Copies a folder as a batch. */
export function NewBatch({ onCreated }: { onCreated: (id: string) => void }) {
  const [source, setSource] = useState('');
  const [destination, setDestination] = useState('');
  const [pattern, setPattern] = useState('*');
  const [exclude, setExclude] = useState('');
  const [recursive, setRecursive] = useState(false);
  const [priority, setPriority] = useState<Priority>('normal');
  const [options, setOptions] = useState(NO_OPTIONS);
  const [after, setAfter] = useState(NOTHING_AFTER);
  const body = {
    source_uri: source.trim(),
    destination_uri: destination.trim(),
    pattern,
    recursive,
    exclude: exclude.split(/\s+/).filter(Boolean),
    priority,
    ...chosen(options),
    ...chosenAfter(after),
  };
  const idempotencyKey = useIdempotencyKey(body);
  const create = () =>
    call('POST /v1/batches', { body, idempotencyKey }).then(({ id }) => onCreated(id));

  return (
    <Form
      submit="Create batch"
      onSubmit={create}
      fields={['source_uri', 'destination_uri', 'pattern', 'exclude', ...AFTER_FIELDS]}
      beside={<CloseButton>Cancel</CloseButton>}
    >
      {(errors) => (
        <>
          <p>Copies the files that are in a folder now.</p>
          <Field label="Source folder" error={errors.source_uri}>
            <input
              autoComplete="off"
              spellcheck={false}
              placeholder="sftp://hospital/outbox/"
              value={source}
              onInput={({ currentTarget }) => setSource(currentTarget.value)}
            />
          </Field>
          <Field
            label="Destination folder"
            hint="Ends in a slash. The paths below the source folder are kept."
            error={errors.destination_uri}
          >
            <input
              autoComplete="off"
              spellcheck={false}
              placeholder="s3://archive/in/"
              value={destination}
              onInput={({ currentTarget }) => setDestination(currentTarget.value)}
            />
          </Field>
          <Field label="Files" hint="A pattern such as *.csv" error={errors.pattern}>
            <input
              autoComplete="off"
              spellcheck={false}
              value={pattern}
              onInput={({ currentTarget }) => setPattern(currentTarget.value)}
            />
          </Field>
          <Field label="Leave out" hint="Patterns, separated by spaces" error={errors.exclude}>
            <input
              autoComplete="off"
              spellcheck={false}
              value={exclude}
              onInput={({ currentTarget }) => setExclude(currentTarget.value)}
            />
          </Field>
          <Checkbox label="Files of subfolders too" checked={recursive} onChange={setRecursive} />
          <CommonOptionFields options={options} onChange={setOptions} />
          <AfterFields value={after} onChange={setAfter} errors={errors} />
          <PriorityField value={priority} onChange={setPriority} />
        </>
      )}
    </Form>
  );
}
