import type { Priority } from '../../api/api-types.ts';
import { Field } from '../../components/forms/field.tsx';

/** In the order of the choices. The compiler asks for a new one. */
const PRIORITIES = { low: true, normal: true, high: true } satisfies Record<Priority, true>;

interface PriorityFieldProps {
  value: Priority;
  onChange: (priority: Priority) => void;
}

export function PriorityField({ value, onChange }: PriorityFieldProps) {
  return (
    <Field label="Priority">
      <select
        value={value}
        onChange={({ currentTarget }) => onChange(currentTarget.value as Priority)}
      >
        {Object.keys(PRIORITIES).map((name) => (
          <option key={name}>{name}</option>
        ))}
      </select>
    </Field>
  );
}
