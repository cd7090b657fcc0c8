import type { Operations, Problem } from './api-types.ts';

/** A response that is not a success. `status` is 0 if no response came. */
export class RequestFailed extends Error {
  override readonly name = 'RequestFailed';
  readonly problem: Problem;

  constructor(problem: Problem) {
    super(problem.detail);
    this.problem = problem;
  }

  /**
   * The error of each field, by its name in the request. An error within a list, such as
   * `host_keys[1].sha256`, is one of the whole list too.
   */
  get fields(): Record<string, string> {
    const errors = (this.problem.errors ?? []).map(({ field, message }) => [field, message]);
    const ofLists = (this.problem.errors ?? []).flatMap(({ field, message }) =>
      /\[\d+\]/.test(field) ? [[field.replace(/\[.*$/, ''), `${field} ${message}`]] : [],
    );
    return Object.fromEntries([...ofLists, ...errors]);
  }
}

/** The `type` of a problem that the page itself has found, without a request. */
const OF_PAGE = 'page';

function foundByPage(problem: Omit<Problem, 'type' | 'request_id'>): RequestFailed {
  return new RequestFailed({ ...problem, type: OF_PAGE, request_id: '' });
}

/** A field that the page itself finds wrong, because no request can say it. */
export function invalidField(field: string, message: string): RequestFailed {
  const code = 'validation_failed';
  return foundByPage({
    title: 'The request is not valid',
    status: 400,
    detail: message,
    code,
    errors: [{ field, code, message }],
  });
}

const CHANGED = 412;

/** A form shows an older version than the service has, as the page itself has found. */
export function changedMeanwhile(title: string): RequestFailed {
  return foundByPage({ title, status: CHANGED, detail: title, code: 'precondition_failed' });
}

/** Returns true if a form shows an older version than the service has. It can never succeed. */
export const isOutdated = ({ status }: Problem): boolean => status === CHANGED;

type Input<O> = Omit<O, 'answer'> & Pick<AnyInput, 'signal' | 'idempotencyKey' | 'revision'>;
type Answer<O> = O extends { answer: infer A } ? A : never;
/** An operation without required input takes its name alone. */
type Arguments<O> =
  Record<never, never> extends Omit<O, 'answer'> ? [input?: Input<O>] : [input: Input<O>];

interface AnyInput {
  path?: Record<string, string>;
  query?: Record<string, string | number | boolean | undefined>;
  body?: unknown;
  signal?: AbortSignal;
  /** The revision that the request changes. If there is a newer one, the service rejects it. */
  revision?: number;
  /** The service carries out a request once, however often it comes with this key. */
  idempotencyKey?: string;
}

/** Returns true if the service answered that there is no session any more. */
export function endsSession({ code }: Problem): boolean {
  return code === 'session_ended' || code === 'api_key_missing';
}

let onSessionEnded = (_problem: Problem) => {};

/** Sets the listener for responses that say that the session has ended, and why. */
export function whenSessionEnds(listener: (problem: Problem) => void): void {
  onSessionEnded = listener;
}

/** Returns true if no answer of the service came. */
export const isUnanswered = ({ request_id, type }: Problem): boolean =>
  request_id === '' && type !== OF_PAGE;

/** Returns true if the same request may succeed later. */
export function isTransient({ status }: Problem): boolean {
  return status === 0 || status >= 500 || [408, 409, 425, 429].includes(status);
}

/** While a read waits, the page asks so often whether the service answers at all. */
const PATIENCE_MS = 10_000;
const ASK_MS = 5_000;

let reached = true;
const onReached = new Set<(reached: boolean) => void>();

/** Returns whether the service answered the last request. */
export const isReached = (): boolean => reached;

/** Calls the listener when that changes. Returns the function that ends it. */
export function whenReached(listener: (reached: boolean) => void): () => void {
  onReached.add(listener);
  return () => void onReached.delete(listener);
}

function setReached(now: boolean): void {
  if (now === reached) return;
  reached = now;
  for (const listener of onReached) listener(now);
}

const onChanged = new Set<(resource: string) => void>();

/**
 * Calls the listener after each successful request that may change something, with the first part
 * of its path, such as `flows`. Returns the function that ends it.
 */
export function whenChanged(listener: (resource: string) => void): () => void {
  onChanged.add(listener);
  return () => void onChanged.delete(listener);
}

/** Asks whether the service answers. A frozen one accepts requests, and so does a cut network. */
export async function askWhetherReached(): Promise<void> {
  await call('GET /v1/session', { signal: AbortSignal.timeout(ASK_MS) }).catch(() => undefined);
}

/**
 * Sends one request, such as `call('GET /v1/transfers', { query: { limit: 25 } })`. Throws
 * RequestFailed, or an AbortError if the signal aborts.
 */
export async function call<Name extends keyof Operations>(
  name: Name,
  ...[input]: Arguments<Operations[Name]>
): Promise<Answer<Operations[Name]>> {
  const response = await send(name, input);
  if (response.status === 204) return null as Answer<Operations[Name]>;
  // The connection may break within the body.
  return response.json().catch(throwNetworkError);
}

/** Yields the lines of a response, each a JSON document, as they arrive. Throws as `call`. */
export async function* lines<Line>(name: keyof Operations, input: AnyInput): AsyncGenerator<Line> {
  const response = await send(name, input);
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  const decoder = new TextDecoder();
  for (let text = ''; ; ) {
    const { done, value } = await reader.read().catch(throwNetworkError);
    if (done) return;
    const complete = (text + decoder.decode(value, { stream: true })).split('\n');
    text = complete.pop() ?? '';
    for (const line of complete) yield JSON.parse(line);
  }
}

/** Saves all matches of a list as CSV. Throws as `call`. */
export async function saveCsv(
  name: keyof Operations,
  query: AnyInput['query'],
  fileName: string,
): Promise<void> {
  const response = await send(name, { query }, { accept: 'text/csv' });
  const address = URL.createObjectURL(await response.blob().catch(throwNetworkError));
  const link = document.createElement('a');
  link.href = address;
  link.download = fileName;
  link.click();
  // The browser reads the file after the click.
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

/** Returns a new Idempotency-Key. `crypto.randomUUID` is missing in pages served over HTTP. */
export function newIdempotencyKey(): string {
  return crypto.getRandomValues(new Uint32Array(4)).join('-');
}

async function send(
  name: string,
  { path, query, body, signal, idempotencyKey, revision }: AnyInput = {},
  headers: Record<string, string> = {},
): Promise<Response> {
  const [method = '', template = ''] = name.split(' ');
  const asking =
    method === 'GET' ? setInterval(() => void askWhetherReached(), PATIENCE_MS) : undefined;
  const response = await fetch(urlOf(template, { path, query }), {
    method,
    headers: {
      ...headers,
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...(idempotencyKey !== undefined && { 'idempotency-key': idempotencyKey }),
      ...(revision !== undefined && { 'if-match': `"${revision}"` }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
    ...(signal && { signal }),
  })
    .catch(throwNetworkError)
    .finally(() => clearInterval(asking));
  if (response.ok) {
    setReached(true);
    const resource = template.split('/')[2] ?? '';
    if (method !== 'GET') for (const listener of onChanged) listener(resource);
    return response;
  }
  // What is no problem document comes from a proxy before the service.
  const answer: Problem | null = await response.json().catch(() => null);
  setReached(answer !== null);
  const problem = answer ?? { ...unreachable(), status: response.status };
  if (endsSession(problem)) onSessionEnded(problem);
  throw new RequestFailed(problem);
}

function throwNetworkError(error: Error): never {
  if (error.name === 'AbortError') throw error;
  setReached(false);
  throw new RequestFailed(unreachable());
}

/** Returns the address of an operation with its parameters filled in. */
export function urlOf(
  template: string,
  { path = {}, query = {} }: { path?: AnyInput['path']; query?: AnyInput['query'] },
): string {
  const filled = template.replace(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent(path[name] ?? ''),
  );
  const given = Object.entries(query).flatMap(([name, value]) =>
    value === undefined || value === '' ? [] : [[name, String(value)]],
  );
  return given.length === 0 ? filled : `${filled}?${new URLSearchParams(given)}`;
}

function unreachable(): Problem {
  return {
    type: 'about:blank',
    title: 'No response',
    status: 0,
    detail: 'The service did not respond. Check that it is running and that the network works.',
    code: 'unavailable',
    request_id: '',
  };
}
