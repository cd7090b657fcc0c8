import { Name } from './names.tsx';

interface ActorProps {
  /** The actor of an event, such as `console:key_01J…` or `mover:…`. */
  actor: string;
  /** Names of API keys by id. */
  keyNames: ReadonlyMap<string, string>;
}

/** Names who caused an event: an API key by its name, anything else as the log has it. */
export function Actor({ actor, keyNames }: ActorProps) {
  const [kind = '', id = ''] = actor.split(':');
  const name = keyNames.get(id);
  if (name === undefined) return <code>{actor}</code>;
  return (
    <span title={actor}>
      <Name of={name} /> ({kind === 'console' ? 'console' : 'API key'})
    </span>
  );
}
