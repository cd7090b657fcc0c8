import { useEffect, useState } from 'preact/hooks';
import type { Endpoint } from '../../../api/api-types.ts';
import { call } from '../../../api/client.ts';
import { useLoad } from '../../../api/use-load.ts';
import { Dialog } from '../../../components/dialogs/dialog.tsx';
import { ProblemNotice } from '../../../components/feedback/problem.tsx';
import { Field } from '../../../components/forms/field.tsx';
import { many } from '../../../components/values/units.ts';
import { found, ORDERS, type Order } from '../file-order.ts';
import { Files } from '../files.tsx';

/** Rows of a large folder that are rendered. The search finds the others. */
const SHOWN = 500;

interface FileDialogProps {
  endpoint: Endpoint;
  pick: 'file' | 'folder';
  /** The path to start at. The part after its last slash is a file name and is ignored. */
  start: string;
  onPick: (path: string) => void;
  onClose: () => void;
}

/** Browses the folders of a server. */
export function FileDialog({ endpoint, pick, start, onPick, onClose }: FileDialogProps) {
  const [folder, setFolder] = useState(() => folderOf(start.replace(/[^/]*$/, '')));
  const [typed, setTyped] = useState(folder);
  const [search, setSearch] = useState('');
  const [order, setOrder] = useState<Order>('name');
  useEffect(() => {
    setTyped(folder);
    setSearch('');
  }, [folder]);
  const { data, error, loading, reload } = useLoad(
    (signal) =>
      call('GET /v1/endpoints/{endpoint_id}/files', {
        path: { endpoint_id: endpoint.id },
        query: { path: folder },
        signal,
      }),
    [folder],
  );
  // While a folder loads, `data` is still the list of the previous one.
  const list = data?.path === folder && !error ? data : null;
  const entries = list ? found(list.data, search, order) : [];
  const open = () => setFolder(folderOf(typed));

  /** The dialog is inside the form of the transfer, which Enter would send. */
  function onEnter(act?: () => void) {
    return (event: KeyboardEvent) => {
      if (event.key !== 'Enter') return;
      event.preventDefault();
      act?.();
    };
  }

  return (
    <Dialog
      title={
        pick === 'file'
          ? `Choose a file on ${endpoint.name}`
          : `Choose a folder on ${endpoint.name}`
      }
      wide
      onClose={onClose}
    >
      <div class="path-field">
        <Field label="Folder">
          <input
            class="mono"
            spellcheck={false}
            autoCapitalize="none"
            autoComplete="off"
            value={typed}
            onInput={({ currentTarget }) => setTyped(currentTarget.value)}
            onKeyDown={onEnter(open)}
          />
        </Field>
        <button type="button" onClick={open}>
          Open
        </button>
      </div>
      <search class="files-tools">
        <Field label="Search this folder">
          <input
            type="search"
            spellcheck={false}
            placeholder="Part of a name"
            value={search}
            onInput={({ currentTarget }) => setSearch(currentTarget.value)}
            onKeyDown={onEnter()}
          />
        </Field>
        <Field label="Sort by">
          <select
            value={order}
            onChange={({ currentTarget }) => setOrder(currentTarget.value as Order)}
          >
            {Object.entries(ORDERS).map(([name, { label }]) => (
              <option key={name} value={name}>
                {label}
              </option>
            ))}
          </select>
        </Field>
      </search>
      {error && <ProblemNotice error={error} retry={reload} />}
      <Files
        folder={folder}
        entries={entries.slice(0, SHOWN)}
        pick={pick}
        loading={loading}
        onOpen={setFolder}
        onPick={onPick}
      />
      {list && (
        <p class="muted number" role="status">
          {summary(Math.min(entries.length, SHOWN), list.data.length, list.truncated)}
        </p>
      )}
      <div class="actions">
        {pick === 'folder' && (
          <button type="button" class="primary" onClick={() => onPick(folder)}>
            Use this folder
          </button>
        )}
        <button type="button" onClick={onClose}>
          Close
        </button>
      </div>
    </Dialog>
  );
}

/** Returns the path of a folder: it begins and ends with one slash. */
function folderOf(path: string): string {
  return `/${path.trim()}/`.replace(/\/{2,}/g, '/');
}

function summary(shown: number, all: number, truncated: boolean): string {
  if (all === 0) return 'This folder is empty.';
  const more = truncated ? ' The folder has more entries than the service lists.' : '';
  const count = shown === all ? '' : `${shown.toLocaleString('en')} of `;
  return `${count}${many(all, 'entry', 'entries')}.${more}`;
}
