const OIDC = ['ISSUER', 'CLIENT_ID', 'CLIENT_SECRET', 'ROLES'].map(
  (name) => `WAYBILL_OIDC_${name}`,
);
const EVENT_STORE = ['USER', 'PASSWORD', 'CA_FILE'].map((name) => `WAYBILL_EVENTSTORE_${name}`);

type Environment = Record<string, string | undefined>;

/** Finds settings that need each other, are given twice, or have no effect beside another one. */
export function conflicts(given: Environment): string[] {
  const problems: string[] = [];
  if (given.DATABASE_URL && !given.WAYBILL_MASTER_KEY) {
    problems.push(
      'WAYBILL_MASTER_KEY is missing, and DATABASE_URL requires it: set it to the output of ' +
        '`openssl rand -base64 32`, and keep it safe',
    );
  }
  for (const [one, other] of [
    ['WAYBILL_TLS_CERT', 'WAYBILL_TLS_KEY'],
    ['WAYBILL_TLS_KEY', 'WAYBILL_TLS_CERT'],
    ['WAYBILL_EVENTSTORE_USER', 'WAYBILL_EVENTSTORE_PASSWORD'],
    ['WAYBILL_EVENTSTORE_PASSWORD', 'WAYBILL_EVENTSTORE_USER'],
  ] as const) {
    if (given[one] && !given[other])
      problems.push(`${other} is missing: ${one} alone has no effect, set both or neither`);
  }
  const absent = OIDC.filter((name) => !given[name]);
  if (absent.length > 0 && absent.length < OIDC.length)
    problems.push(
      `${absent.join(', ')} missing: sign-in by OpenID Connect needs all of ${OIDC.join(', ')}`,
    );
  return [...problems, ...eventStoreConflicts(given)];
}

/** Finds settings of the event store that are given twice or have no effect. */
function eventStoreConflicts(given: Environment): string[] {
  const names = EVENT_STORE.filter((name) => given[name]);
  const url = given.EVENTSTORE_URL;
  if (url === undefined)
    return names.map((name) => `${name} has no effect without EVENTSTORE_URL: set both or neither`);
  const problems: string[] = [];
  if (given.WAYBILL_EVENTSTORE_USER && url.includes('@'))
    problems.push('EVENTSTORE_URL and WAYBILL_EVENTSTORE_USER both name a user: set one of them');
  if (given.WAYBILL_EVENTSTORE_CA_FILE && /tlscafile=/i.test(url))
    problems.push(
      'EVENTSTORE_URL (tlsCaFile) and WAYBILL_EVENTSTORE_CA_FILE both name a CA file: set one ' +
        'of them',
    );
  const insecure = /[?&]tls=false(&|$)/i.test(url);
  if (insecure)
    problems.push(...names.map((name) => `${name} has no effect with tls=false in EVENTSTORE_URL`));
  return problems;
}
