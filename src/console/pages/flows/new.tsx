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
import { PriorityField } from '../transfers/priority-field.tsx';

const FIELDS = [
  'name',
  'source.uri',
  'source.pattern',
  'destination_uri',
  'trigger.every',
  'trigger.cron',
  'trigger.time_zone',
  'ready.unchanged_for',
  'ready.marker',
  ...AFTER_FIELDS,
];

const TEXTS = {
  name: '',
  uri: '',
  pattern: '*',
  destination: '',
  every: '5m',
  cron: '0 6 * * 1-5',
  zone: 'UTC',
  unchangedFor: '30s',
  marker: '.done',
};

/** How a duration is written. */
const NOTATION = '30s, 5m, 2h or 1d';

type Timing = 'every' | 'cron' | 'none';
type Readiness = 'unchanged' | 'marker';

/** Creates a flow. */
export function NewFlow({ onCreated }: { onCreated: (id: string) => void }) {
  const [texts, setTexts] = useState(TEXTS);
  const [timing, setTiming] = useState<Timing>('every');
  const [readiness, setReadiness] = useState<Readiness>('unchanged');
  const [recursive, setRecursive] = useState(false);
  const [newOnly, setNewOnly] = useState(false);
  const [after, setAfter] = useState(NOTHING_AFTER);
  const [priority, setPriority] = useState<Priority>('normal');
  const { name, uri, pattern, destination, every, cron, zone, unchangedFor, marker } = texts;
  const triggers = { every: { every }, cron: { cron, time_zone: zone }, none: null };
  const body = {
    name,
    source: { uri: uri.trim(), pattern, recursive },
    destination_uri: destination.trim(),
    ready: readiness === 'marker' ? { marker } : { unchanged_for: unchangedFor },
    trigger: triggers[timing],
    priority,
    start: newOnly ? ('new_only' as const) : ('now' as const),
    ...chosenAfter(after),
  };
  const idempotencyKey = useIdempotencyKey(body);
  const create = () =>
    call('POST /v1/flows', { body, idempotencyKey }).then(({ id }) => onCreated(id));
  const input = (key: keyof typeof TEXTS, placeholder?: string) => (
    <input
      autoComplete="off"
      spellcheck={false}
      placeholder={placeholder}
      value={texts[key]}
      onInput={({ currentTarget: { value } }) => setTexts((all) => ({ ...all, [key]: value }))}
    />
  );

  return (
    <Form
      submit="Create flow"
      onSubmit={create}
      fields={FIELDS}
      beside={<CloseButton>Cancel</CloseButton>}
    >
      {(errors) => (
        <>
          <Field label="Name" error={errors.name}>
            {input('name', 'orders')}
          </Field>
          <Field label="Source folder" error={errors['source.uri']}>
            {input('uri', 'sftp://hospital/outbox/')}
          </Field>
          <Field label="Files" hint="A pattern such as *.csv" error={errors['source.pattern']}>
            {input('pattern')}
          </Field>
          <Checkbox label="Files of subfolders too" checked={recursive} onChange={setRecursive} />
          <Field
            label="Destination"
            hint="May have {path}, {name}, {flow} and {date:yyyy-MM-dd}. The path follows a slash at the end."
            error={errors.destination_uri}
          >
            {input('destination', 's3://archive/{date:yyyy-MM-dd}/')}
          </Field>
          <Field label="Runs">
            <select
              value={timing}
              onChange={({ currentTarget }) => setTiming(currentTarget.value as Timing)}
            >
              <option value="every">At a fixed interval</option>
              <option value="cron">At the times of a cron expression</option>
              <option value="none">On request only</option>
            </select>
          </Field>
          {timing === 'every' && (
            <Field label="Every" hint={NOTATION} error={errors['trigger.every']}>
              {input('every')}
            </Field>
          )}
          {timing === 'cron' && (
            <>
              <Field
                label="Cron expression"
                hint="Minute, hour, day of the month, month, day of the week"
                error={errors['trigger.cron']}
              >
                {input('cron')}
              </Field>
              <Field label="Time zone" error={errors['trigger.time_zone']}>
                {input('zone', 'Europe/Berlin')}
              </Field>
            </>
          )}
          <Field label="A file is ready">
            <select
              value={readiness}
              onChange={({ currentTarget }) => setReadiness(currentTarget.value as Readiness)}
            >
              <option value="unchanged">when it did not change for a while</option>
              <option value="marker">when a marker file is beside it</option>
            </select>
          </Field>
          {readiness === 'unchanged' ? (
            <Field label="Unchanged for" hint={NOTATION} error={errors['ready.unchanged_for']}>
              {input('unchangedFor')}
            </Field>
          ) : (
            <Field
              label="End of the marker's name"
              hint="a.csv waits for a.csv.done"
              error={errors['ready.marker']}
            >
              {input('marker')}
            </Field>
          )}
          <Checkbox
            label="Skip the files that are there already"
            checked={newOnly}
            onChange={setNewOnly}
          />
          <AfterFields value={after} onChange={setAfter} errors={errors} />
          <PriorityField value={priority} onChange={setPriority} />
        </>
      )}
    </Form>
  );
}
