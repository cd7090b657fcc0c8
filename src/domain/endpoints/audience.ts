import { fieldError } from '../errors.ts';
import { type EndpointSettings, protocolOf } from '../protocols/index.ts';
import { viaOf } from '../protocols/via.ts';

/** Throws `validation_failed` if the stored credentials would go to another server than before. */
export function assertSameAudience(before: EndpointSettings, after: EndpointSettings): void {
  if (audienceOf(before) === audienceOf(after)) return;
  throw fieldError(
    secretFieldOf(after),
    'is required: the stored credentials are for another server',
  );
}

/** Returns the field that asks for credentials: the first secret that a form hides. */
function secretFieldOf(settings: EndpointSettings): string {
  const secrets = Object.values(protocolOf(settings).signIns).flatMap((way) =>
    Object.entries(way.secrets),
  );
  const [name] =
    secrets.find(([, { kind }]) => kind === 'secret') ?? (secrets[0] as [string, unknown]);
  return name;
}

/** Returns a key for the server that receives the credentials, and for the hop before it. */
function audienceOf(settings: EndpointSettings): string {
  const via = viaOf(settings);
  const hop = via && `${via.type} ${via.host}:${via.port} ${via.username}`;
  return `${settings.protocol} ${protocolOf(settings).audience(settings)} ${hop}`;
}

/** What tells the files of two endpoints on one server apart: the account there, or the bucket. */
const APART: readonly string[] = ['username', 'bucket', 'region', 'container'];

/**
 * Returns whether a remote path means the same file at both endpoints. Two accounts of one server
 * may have folders of their own, so they count as different.
 */
export function shareFiles(one: EndpointSettings, other: EndpointSettings): boolean {
  const [some, others]: Record<string, unknown>[] = [{ ...one }, { ...other }];
  return (
    audienceOf(one) === audienceOf(other) &&
    APART.every((field) => some?.[field] === others?.[field])
  );
}
