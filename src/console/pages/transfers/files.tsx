import { useLayoutEffect, useRef } from 'preact/hooks';
import { once } from '../../components/dialogs/once.ts';
import { Icon } from '../../components/values/icon.tsx';
import { inputTime } from '../../components/values/instants.ts';
import { Name } from '../../components/values/names.tsx';
import { useZone } from '../../components/values/time-zone.tsx';
import { bytes } from '../../components/values/units.ts';
import type { FileEntry } from './file-order.ts';

interface FilesProps {
  /** Begins and ends with a slash. */
  folder: string;
  entries: FileEntry[];
  pick: 'file' | 'folder';
  loading: boolean;
  onOpen: (folder: string) => void;
  onPick: (path: string) => void;
}

/** The contents of a folder, as buttons. */
export function Files({ folder, entries, pick, loading, onOpen, onPick }: FilesProps) {
  const list = useRef<HTMLUListElement>(null);
  const opened = useRef(false);
  const open = (to: string) => {
    opened.current = true;
    onOpen(to);
  };
  // The button that opened the folder is gone, and the focus would be lost with it.
  useLayoutEffect(() => {
    if (opened.current) list.current?.focus();
    opened.current = false;
  }, [folder]);
  return (
    <ul
      ref={list}
      class="files"
      tabIndex={-1}
      aria-busy={loading}
      aria-label={`Contents of ${folder}`}
    >
      {folder !== '/' && (
        <li>
          <button type="button" onClick={once(() => open(folder.replace(/[^/]+\/$/, '')))}>
            <Icon name="up" /> <span>Parent folder</span>
          </button>
        </li>
      )}
      {entries.map((entry) => (
        <Entry
          key={entry.name}
          entry={entry}
          choosable={pick === 'file'}
          onChoose={() =>
            entry.type === 'directory'
              ? open(`${folder}${entry.name}/`)
              : onPick(folder + entry.name)
          }
        />
      ))}
    </ul>
  );
}

interface EntryProps {
  entry: FileEntry;
  /** True if files can be chosen, not only folders. */
  choosable: boolean;
  onChoose: () => void;
}

function Entry({ entry: { name, type, size, modified_at }, choosable, onChoose }: EntryProps) {
  const zone = useZone();
  const isFolder = type === 'directory';
  return (
    <li>
      <button type="button" disabled={!isFolder && !choosable} onClick={once(onChoose)}>
        <Icon name={isFolder ? 'folder' : 'file'} />
        <span>
          <Name of={name} />
          {isFolder && '/'}
        </span>
        <span class="muted number">{!isFolder && bytes(size)}</span>
        <span class="muted number">
          {modified_at && (
            <time dateTime={modified_at}>
              {inputTime(modified_at, zone).replace('T', ' ')}
              {zone === 'utc' && ' UTC'}
            </time>
          )}
        </span>
      </button>
    </li>
  );
}
