import type { ComponentChildren } from 'preact';
import type { Endpoint, EndpointVia } from '../../api/api-types.ts';
import type { EndpointField } from '../../api/protocols.ts';
import { Field } from '../../components/forms/field.tsx';
import { PROTOCOLS, type Protocol, type Values } from './fields.ts';
import { HostKeys } from './host-keys.tsx';

type ViaType = EndpointVia['type'];

const LABELS: Record<ViaType, string> = {
  ssh: 'SSH jump host',
  http: 'HTTP proxy',
  socks5: 'SOCKS5 proxy',
};
const PORTS: Record<ViaType, string> = { ssh: '22', http: '3128', socks5: '1080' };
const TYPE = 'via.type';

/** Returns the hop of an endpoint; null if it has none. */
export const viaOf = (endpoint: Endpoint): EndpointVia | null =>
  'via' in endpoint ? endpoint.via : null;

/** Returns the fields of the chosen hop. The API never returns its secrets. */
export function viaFieldsOf(values: Values, asked: boolean): EndpointField[] {
  const type = values[TYPE] as ViaType | '' | undefined;
  if (!type) return [];
  const jump: EndpointField[] = [
    {
      name: 'via.host_keys',
      label: 'Host keys of the jump host',
      kind: 'host-keys',
      placeholder: 'SHA256:... 2027-06-30',
      hint: 'A fingerprint in each line. Leave empty: the test then names the key',
    },
  ];
  const secrets: EndpointField[] = [
    { name: 'via.password', label: `Password of the ${LABELS[type]}`, kind: 'secret' },
  ];
  if (type === 'ssh')
    secrets.push(
      { name: 'via.private_key', label: 'Private key for the jump host', kind: 'lines' },
      { name: 'via.passphrase', label: 'Passphrase of that key', kind: 'secret' },
    );
  return [
    { name: TYPE, label: 'Connect through' },
    { name: 'via.host', label: `${LABELS[type]}`, placeholder: 'gateway.example.com' },
    {
      name: 'via.port',
      label: `Port of the ${LABELS[type]}`,
      kind: 'number',
      placeholder: PORTS[type],
    },
    {
      name: 'via.username',
      label: `User name at the ${LABELS[type]}`,
      hint: type === 'ssh' ? '' : 'Leave empty if it asks for none',
    },
    ...(type === 'ssh' ? jump : []),
    ...(asked ? secrets : []),
  ];
}

interface ViaProps {
  protocol: Protocol;
  values: Values;
  error: string | undefined;
  onType: (type: string) => void;
  /** The fields of the chosen hop. */
  children: ComponentChildren;
}

/** Asks for a hop before the server. Renders nothing for a protocol that can take none. */
export function Via({ protocol, values, error, onType, children }: ViaProps) {
  const { via } = PROTOCOLS[protocol];
  if (via.length === 0) return null;
  return (
    <fieldset>
      <legend>Way to the server</legend>
      <div class="field-row">
        <Field label="Connect through" error={error}>
          <select
            value={values[TYPE] ?? ''}
            onChange={({ currentTarget }) => onType(currentTarget.value)}
          >
            <option value="">Nothing: directly</option>
            {via.map((type) => (
              <option key={type} value={type}>
                {LABELS[type]}
              </option>
            ))}
          </select>
        </Field>
        {children}
      </div>
    </fieldset>
  );
}

/** Shows the hop of an endpoint. */
export function ViaFacts({ via: { type, host, port, username, host_keys } }: { via: EndpointVia }) {
  return (
    <>
      {LABELS[type]} {username === null ? '' : `${username}@`}
      {host}:{port}
      {host_keys && <HostKeys keys={host_keys} />}
    </>
  );
}
