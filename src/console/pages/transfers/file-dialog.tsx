import { useState } from 'preact/hooks';
import { call } from '../../api/client.ts';
import type { Endpoint, FileList } from '../../api/operations.ts';
import { useLoad } from '../../api/use-load.ts';
import { Dialog } from '../../components/dialog.tsx';
import { Icon } from '../../components/icon.tsx';
import { ProblemNotice } from '../../components/problem.tsx';
import { bytes } from '../../components/units.ts';

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
  const [folder, setFolder] = useState(() =>
    `/${start}`.replace(/\/[^/]*$/, '/').replace(/^\/+/, '/'),
  );
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
  const list = data?.path === folder ? data : null;
  return (
    <Dialog
      title={
        pick === 'file'
          ? `Choose a file on ${endpoint.name}`
          : `Choose a folder on ${endpoint.name}`
      }
      onClose={onClose}
    >
      <p class="mono" aria-live="polite">
        {folder}
      </p>
      {error && <ProblemNotice error={error} retry={reload} />}
      <ul class="files" aria-busy={loading} aria-label={`Contents of ${folder}`}>
        {folder !== '/' && (
          <li>
            <button type="button" onClick={once(() => setFolder(folder.replace(/[^/]+\/$/, '')))}>
              <Icon name="up" /> Parent folder
            </button>
          </li>
        )}
        {!error &&
          list?.data.map((entry) => (
            <Entry
              key={entry.name}
              entry={entry}
              choosable={pick === 'file'}
              onChoose={() =>
                entry.type === 'directory'
                  ? setFolder(`${folder}${entry.name}/`)
                  : onPick(folder + entry.name)
              }
            />
          ))}
      </ul>
      {list?.data.length === 0 && <p class="muted">This folder is empty.</p>}
      {list?.truncated && <p class="muted">This folder has more entries than shown.</p>}
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

interface EntryProps {
  entry: FileList['data'][number];
  /** True if files can be chosen, not only folders. */
  choosable: boolean;
  onChoose: () => void;
}

function Entry({ entry: { name, type, size }, choosable, onChoose }: EntryProps) {
  return (
    <li>
      <button type="button" disabled={type !== 'directory' && !choosable} onClick={once(onChoose)}>
        <Icon name={type === 'directory' ? 'folder' : 'file'} />
        <span>
          {name}
          {type === 'directory' && '/'}
        </span>
        {type === 'file' && <span class="muted number">{bytes(size)}</span>}
      </button>
    </li>
  );
}

/**
 * Ignores the second click of a double click. By then another entry may be at the same place.
 */
function once(act: () => void) {
  return ({ detail }: MouseEvent) => detail < 2 && act();
}
