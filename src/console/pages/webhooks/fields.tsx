import { Choices } from '../../components/forms/choices.tsx';
import { Field } from '../../components/forms/field.tsx';
import { EVENT_TYPES, type EventType } from './event-types.ts';

interface WebhookFieldsProps {
  url: string;
  events: EventType[];
  onUrl: (url: string) => void;
  onEvents: (events: EventType[]) => void;
  errors: Record<string, string>;
}

/** The fields of a webhook, new or changed. */
export function WebhookFields({ url, events, onUrl, onEvents, errors }: WebhookFieldsProps) {
  return (
    <>
      <Field label="URL" hint="Receives each event by POST" error={errors.url}>
        <input
          type="url"
          autoComplete="off"
          spellcheck={false}
          placeholder="https://receiver.example.com/waybill"
          value={url}
          onInput={({ currentTarget }) => onUrl(currentTarget.value)}
        />
      </Field>
      <Choices
        legend="Events"
        options={EVENT_TYPES}
        chosen={events}
        onChange={onEvents}
        error={errors.events}
      />
    </>
  );
}
