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
  /** The path to begin at; what stands behind its last slash is a file's name. */
  start: string;
  onPick: (path: string) => void;
  onClose: () => void;
}

/** Lets one look through the folders of a server. */
export function FileDialog({ endpoint, pick, start, onPick, onClose }: FileDialogProps) {
  const [folder, setFolder] = useState(() => `/${start}`.replace(/\/[^/]*$/, '/').replace(/^\/+/, '/'));
  const { data, error, loading, reload } = useLoad(
    (signal) => call('GET /v1/endpoints/{endpoint_id}/files', { path: { endpoint_id: endpoint.id }, query: { path: folder }, signal }),
    [folder],
  );
  // While a folder is on its way, what was loaded last is another one's.
  const list = data?.path === folder ? data : null;
  return (
    <Dialog title={pick === 'file' ? `Choose a file on ${endpoint.name}` : `Choose a folder on ${endpoint.name}`} onClose={onClose}>
      <p class="mono" aria-live="polite">
        {folder}
      </p>
      {error && <ProblemNotice error={error} retry={reload} />}
      <ul class="files" aria-busy={loading} aria-label={`Contents of ${folder}`}>
        {folder !== '/' && (
          <li>
            <button type="button" onClick={once(() => setFolder(folder.replace(/[^/]+\/$/, '')))}>
              <Icon name="up" /> The folder above
            </button>
          </li>
        )}
        {!error &&
          list?.data.map((entry) => (
            <Entry
              key={entry.name}
              entry={entry}
              choosable={pick === 'file'}
              onChoose={() => (entry.type === 'directory' ? setFolder(`${folder}${entry.name}/`) : onPick(folder + entry.name))}
            />
          ))}
      </ul>
      {list?.data.length === 0 && <p class="muted">This folder is empty.</p>}
      {list?.truncated && <p class="muted">There are more names than are shown.</p>}
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
  /** Files can be chosen too. */
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

/** Of a double click only the first one counts: under the second one stands something else by then. */
function once(act: () => void) {
  return ({ detail }: MouseEvent) => detail < 2 && act();
}
