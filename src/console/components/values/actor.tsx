import { urlOf } from '../../api/client.ts';
import { useSession } from '../../session.tsx';
import { Name } from './names.tsx';

interface ActorProps {
  /** The actor of an event, such as `console:key_01J…` or `mover:…`. */
  actor: string;
  /** Names of API keys by id. */
  keyNames: ReadonlyMap<string, string>;
}

/**
 * Names who caused an event: an API key by its name, anything else as the log has it. An auditor may
 * not list the keys: the audit log, which names them, is a link away.
 */
export function Actor({ actor, keyNames }: ActorProps) {
  const mayAudit = useSession().session.scopes.includes('audit:all');
  const [kind = '', id = ''] = actor.split(':');
  const name = keyNames.get(id);
  if (name === undefined) {
    if (!mayAudit || !id.startsWith('key_')) return <code>{actor}</code>;
    return (
      <a href={urlOf('/console/audit', { query: { actor: id } })} title="Show who it is">
        <code>{actor}</code>
      </a>
    );
  }
  return (
    <span title={actor}>
      <Name of={name} /> ({kind === 'console' ? 'console' : 'API key'})
    </span>
  );
}
