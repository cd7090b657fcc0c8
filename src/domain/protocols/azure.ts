import { token } from '../text.ts';
import { CA_FIELD, PREFIX_FIELD, PROXIES, pem, prefix, secret, url, viaProxy } from './fields.ts';
import { type CredentialsOf, defineProtocol, type SettingsOf } from './protocol.ts';

const CONTAINER = 'must be letters, digits and single hyphens, or a name such as $web';

/** Returns true if the name can be one label of a host name. */
function isAccount(name: string): boolean {
  return /^[a-z0-9]([a-z0-9_-]{0,61}[a-z0-9])?$/i.test(name);
}

function isContainer(name: string): boolean {
  return /^(\$[a-z]+|[a-z0-9]+(-[a-z0-9]+)*)$/i.test(name);
}

const name = token.min(1, { abort: true });

export const azure = defineProtocol({
  name: 'azure',
  label: 'Azure Blob',
  fields: {
    account: name
      .max(64)
      .refine(isAccount, 'must be letters, digits and hyphens')
      .meta({ examples: ['examplestorage'] }),
    container: name
      .max(63)
      .refine(isContainer, CONTAINER)
      .meta({ examples: ['archive'] }),
    prefix: prefix.default(''),
    endpoint_url: url,
    account_key: secret.meta({ examples: ['YWNjb3VudCBrZXk='] }).optional(),
    sas_token: secret.optional(),
    ca_pem: pem,
    via: viaProxy,
  },
  signIns: {
    account_key: {
      label: 'Account key',
      secrets: { account_key: { label: 'Account key', kind: 'secret' } },
    },
    sas_token: {
      label: 'SAS token',
      secrets: { sas_token: { label: 'SAS token', kind: 'secret' } },
    },
  },
  form: {
    server: {
      account: { label: 'Storage account' },
      container: { label: 'Container' },
      prefix: PREFIX_FIELD,
      endpoint_url: {
        label: 'Service URL',
        hint: 'Leave empty to use https://ACCOUNT.blob.core.windows.net',
      },
    },
    options: { ca_pem: CA_FIELD },
  },
  filesPerConnection: 8,
  via: PROXIES,
  address: '{account}/{container}/{prefix}',
  host: ({ account, endpoint_url }) =>
    endpoint_url === null ? `${account}.blob.core.windows.net` : new URL(endpoint_url).hostname,
  audience: ({ account, endpoint_url }) => `${account} ${endpoint_url}`,
  locate({ authority, path }, { account, container }) {
    const root = `/${container}`;
    const isHere = authority === account.toLowerCase() && path.startsWith(`${root}/`);
    return isHere ? path.slice(root.length) : null;
  },
});

export type AzureSettings = SettingsOf<'azure', typeof azure.fields, typeof azure.signIns>;
export type AzureCredentials = CredentialsOf<typeof azure.signIns>;
