import { useState } from 'preact/hooks';
import { invalidField } from '../../../api/client.ts';
import { useStored } from '../../../api/use-stored.ts';
import { CloseButton } from '../../../components/dialogs/dialog.tsx';
import { DialogButton } from '../../../components/dialogs/dialog-button.tsx';
import { Field } from '../../../components/forms/field.tsx';
import { Form } from '../../../components/forms/form.tsx';
import { ADDRESS, addressOf, type View } from '../filter.ts';

interface SavedFilter {
  name: string;
  /** Path and query of the list, without the page. */
  href: string;
}

function parse(stored: unknown): SavedFilter[] {
  return (Array.isArray(stored) ? stored : []).filter(
    (one: Partial<SavedFilter> | null) =>
      typeof one?.name === 'string' &&
      typeof one.href === 'string' &&
      one.href.startsWith(`${ADDRESS}?`),
  );
}

/** Links to the filters that the user has saved under names, which the browser keeps. */
export function SavedFilters({ view }: { view: View }) {
  const [saved, change] = useStored('waybill-saved-filters', parse);
  const here = addressOf({ ...view, limit: undefined });
  const isFiltered = Object.keys(view.filter).length > 0;
  if (saved.length === 0 && !isFiltered) return null;
  return (
    <nav class="saved" aria-label="Saved filters">
      {saved.map(({ name, href }) => (
        <a key={name} class="button" href={href} aria-current={href === here ? 'page' : undefined}>
          {name}
        </a>
      ))}
      {isFiltered && !saved.some(({ href }) => href === here) && (
        <DialogButton label="Save filter" title="Save filter">
          {(close) => (
            <NameForm
              onSave={(name) => {
                change((before) => [
                  ...before.filter((one) => one.name !== name),
                  { name, href: here },
                ]);
                close();
              }}
            />
          )}
        </DialogButton>
      )}
      {saved.length > 0 && (
        <DialogButton label="Edit saved filters" kind="ghost" title="Edit saved filters">
          {(close) => <Editor saved={saved} onSave={change} onClose={close} />}
        </DialogButton>
      )}
      {isFiltered && (
        <a class="button ghost" href={ADDRESS}>
          Clear filters
        </a>
      )}
    </nav>
  );
}

/** A filter with the same name is replaced. */
function NameForm({ onSave }: { onSave: (name: string) => void }) {
  const [name, setName] = useState('');
  async function save(): Promise<void> {
    if (name.trim() === '') throw invalidField('name', 'Enter a name');
    onSave(name.trim());
  }
  return (
    <Form
      submit="Save filter"
      fields={['name']}
      beside={<CloseButton>Close</CloseButton>}
      onSubmit={save}
    >
      {(errors) => (
        <Field
          label="Name"
          hint="This browser keeps the filter, and replaces one of this name."
          error={errors.name}
        >
          <input value={name} onInput={({ currentTarget }) => setName(currentTarget.value)} />
        </Field>
      )}
    </Form>
  );
}

interface EditorProps {
  saved: SavedFilter[];
  onSave: (edit: (before: SavedFilter[]) => SavedFilter[]) => void;
  onClose: () => void;
}

/** Renames and deletes saved filters. One without a name keeps its old one. */
function Editor({ saved, onSave, onClose }: EditorProps) {
  const [edited, setEdited] = useState(() => saved.map((one) => ({ ...one, was: one.name })));
  async function save(): Promise<void> {
    const named = edited.map(({ name, was, href }) => ({ name: name.trim() || was, was, href }));
    const isTaken = (name: string) => named.filter((one) => one.name === name).length > 1;
    const twice = named.find(({ name, was }) => name !== was && isTaken(name));
    if (twice) throw invalidField(twice.was, 'Two filters have this name');
    // Another tab may have saved a filter meanwhile.
    const known = [...saved, ...named].map(({ name }) => name);
    onSave((before) => [
      ...named.map(({ name, href }) => ({ name, href })),
      ...before.filter(({ name }) => !known.includes(name)),
    ]);
    onClose();
  }
  return (
    <Form
      submit="Save changes"
      fields={edited.map(({ was }) => was)}
      beside={<CloseButton>Close</CloseButton>}
      onSubmit={save}
    >
      {(errors) =>
        edited.map(({ name, was }) => (
          <div class="named" key={was}>
            <Field label={`Name of ${was}`} error={errors[was]}>
              <input
                value={name}
                onInput={({ currentTarget: { value } }) =>
                  setEdited((before) =>
                    before.map((one) => (one.was === was ? { ...one, name: value } : one)),
                  )
                }
              />
            </Field>
            <button
              type="button"
              class="danger"
              onClick={() => setEdited((before) => before.filter((one) => one.was !== was))}
            >
              Delete<span class="visually-hidden"> {was}</span>
            </button>
          </div>
        ))
      }
    </Form>
  );
}
