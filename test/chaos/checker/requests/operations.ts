import type { Context } from '../context.ts';
import { type CreateRecord, isUnanswered } from '../evidence-files.ts';
import { keyOf, type Places } from '../files/places.ts';
import { linkItems } from './items.ts';

/**
 * One creation by the load: one request without a key, or all requests of an account with one
 * Idempotency-Key.
 */
export interface Operation {
  key: string | null;
  requests: CreateRecord[];
  /** Transfers named by answers of 201. */
  accepted: Set<string>;
  /** At least one request has no answer: it may have been carried out. */
  unanswered: boolean;
}

/**
 * Returns source and destination as one text, with the file name if the destination ends in a
 * slash.
 */
export function routeOf(
  { source, destination }: Pick<CreateRecord, 'source' | 'destination'>,
  places: Places,
): string {
  const name = source.path.slice(source.path.lastIndexOf('/') + 1);
  const path =
    destination.path.endsWith('/') || destination.path === ''
      ? destination.path + name
      : destination.path;
  return (
    `${keyOf(places.ofPath(source.endpoint, source.path))} -> ` +
    `${keyOf(places.ofPath(destination.endpoint, path))}`
  );
}

export function operationsOf(requests: CreateRecord[]): Operation[] {
  const keyed = new Map<string, Operation>();
  const operations: Operation[] = [];
  for (const request of requests) {
    const { idempotencyKey: key } = request;
    const name = `${request.account} ${key}`;
    const operation = (key === null ? undefined : keyed.get(name)) ?? {
      key,
      requests: [],
      accepted: new Set(),
      unanswered: false,
    };
    if (operation.requests.length === 0) operations.push(operation);
    if (key !== null) keyed.set(name, operation);
    operation.requests.push(request);
    if (request.status === 201 && request.transferId !== null)
      operation.accepted.add(request.transferId);
    operation.unanswered ||= isUnanswered(request);
  }
  return operations;
}

/**
 * Finds the operation that led to each transfer of the log: by the answers, by the ids reserved
 * under its key, and, for requests without an answer, by source and destination. Each operation
 * leads to at most one transfer, and each transfer comes from one operation.
 */
export async function linkOperations(
  context: Context,
  places: Places,
): Promise<Map<string, Operation>> {
  const { evidence, log, sql, report } = context;
  const creates = evidence.requests.filter(
    (request) => request.kind === 'create',
  ) as CreateRecord[];
  const operations = operationsOf(creates);
  const links = new Map<string, Operation>();
  const linked = new Set<Operation>();
  const wrong = (subject: string, detail: string) =>
    report.finding('transfers.once', subject, detail);
  const link = (transferId: string, operation: Operation) => {
    const other = links.get(transferId);
    if (other && other !== operation)
      wrong(transferId, `${nameOf(other)} and ${nameOf(operation)} were both answered with it`);
    links.set(transferId, operation);
    linked.add(operation);
  };
  report.count('creates', creates.length);
  report.count('operations', operations.length);

  for (const operation of operations) {
    const ids = [...operation.accepted];
    if (ids.length > 1)
      wrong(
        nameOf(operation),
        `its requests were answered with ${ids.length} transfers: ${ids.join(', ')}`,
      );
    const first = operation.requests.filter(({ status, replayed }) => status === 201 && !replayed);
    if (first.length > 1)
      wrong(nameOf(operation), `${first.length} of its answers are not marked as replayed`);
    for (const id of ids) {
      if (!log.transfers.has(id))
        wrong(
          id,
          `a request was answered with it, and the log does not hold it (${nameOf(operation)})`,
        );
      else link(id, operation);
    }
    const nameless = operation.requests.some(
      ({ status, transferId }) => status === 201 && transferId === null,
    );
    if (nameless) wrong(nameOf(operation), 'an answer of 201 names no transfer');
  }

  const reservedBy = await reservedIds(sql);
  for (const operation of operations) {
    const { key, requests } = operation;
    const row = reservedBy.get(`${requests[0]?.account} ${key}`);
    if (row === undefined) continue;
    const { id: reserved, answered } = row;
    report.count('idempotency_keys');
    const [accepted] = operation.accepted;
    if (accepted !== undefined && accepted !== reserved)
      wrong(`key ${key}`, `it reserves ${reserved}, and its answer names ${accepted}`);
    if (accepted !== undefined && !answered)
      wrong(`key ${key}`, 'its answer was sent, and is not kept');
    if (log.transfers.has(reserved)) link(reserved, operation);
  }
  linkByRoute(operations.filter((operation) => operation.unanswered && !linked.has(operation)));
  for (const [id, operation] of links) {
    const routes = operation.requests.map((request) => routeOf(request, places));
    const route = loggedRoute(id);
    if (route !== null && !routes.includes(route))
      wrong(id, `it is ${route}, and the request was ${routes[0]}`);
    if (operation.accepted.size === 0 && !operation.unanswered)
      wrong(id, `every request of ${nameOf(operation)} was refused`);
  }
  for (const [id, { state }] of log.transfers) {
    if (!links.has(id) && state.facts.batch_id === undefined)
      wrong(
        id,
        `no request led to it, or one that led to another transfer already (${loggedRoute(id)})`,
      );
  }
  report.expectSome('transfers.once', 'creates', log.transfers.size);
  for (const [id, operation] of await linkItems(context, places, links)) links.set(id, operation);
  return links;

  function loggedRoute(id: string): string | null {
    const facts = log.transfers.get(id)?.state.facts;
    if (!facts) return null;
    const source = places.ofUri(facts.source, facts.source_endpoint_id);
    return (
      `${keyOf(source)} -> ` +
      `${keyOf(places.ofUri(facts.destination, facts.destination_endpoint_id))}`
    );
  }

  function linkByRoute(waiting: Operation[]): void {
    const byRoute = new Map<string, Operation[]>();
    for (const operation of waiting) {
      for (const route of new Set(
        operation.requests.filter(isUnanswered).map((request) => routeOf(request, places)),
      )) {
        byRoute.set(route, [...(byRoute.get(route) ?? []), operation]);
      }
    }
    for (const [id, { state }] of log.transfers) {
      if (links.has(id) || state.facts.batch_id !== undefined) continue;
      const operation = byRoute
        .get(loggedRoute(id) ?? '')
        ?.find((candidate) => !linked.has(candidate));
      if (operation) link(id, operation);
    }
  }
}

interface Reserved {
  id: string;
  answered: boolean;
}

/** By account and key: the id that the service reserved for a creation, and whether its answer is kept. */
async function reservedIds(sql: Context['sql']): Promise<Map<string, Reserved>> {
  const rows = await sql<(Reserved & { key: string })[]>`
    select account_id || ' ' || key as key, reserved ->> 'transferId' as id,
           status is not null as answered
      from work.idempotency_keys
     where route like 'POST /v1/transfers%' and reserved ? 'transferId'`;
  return new Map(rows.map(({ key, ...reserved }) => [key, reserved]));
}

function nameOf({ key, requests }: Operation): string {
  return key === null ? `the request sent at ${requests[0]?.sentAt}` : `key ${key}`;
}
