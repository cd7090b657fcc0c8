import type { Priority } from '../../api/api-types.ts';
import { Field } from '../../components/forms/field.tsx';

const PRIORITIES: Priority[] = ['low', 'normal', 'high'];

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
        {PRIORITIES.map((name) => (
          <option key={name}>{name}</option>
        ))}
      </select>
    </Field>
  );
}
