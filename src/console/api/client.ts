import type { Operations, Problem } from './operations.ts';

/** An answer that is no success. Where nothing answered, `status` is 0. */
export class RequestFailed extends Error {
  override readonly name = 'RequestFailed';
  readonly problem: Problem;

  constructor(problem: Problem) {
    super(problem.detail);
    this.problem = problem;
  }

  /** What is wrong with each field; the field's name as in the request. */
  get fields(): Record<string, string> {
    return Object.fromEntries((this.problem.errors ?? []).map(({ field, message }) => [field, message]));
  }
}

type Input<O> = Omit<O, 'answer'> & { signal?: AbortSignal };
type Answer<O> = O extends { answer: infer A } ? A : never;
/** A request that needs nothing can be made with the name of its operation alone. */
type Arguments<O> = Record<never, never> extends Omit<O, 'answer'> ? [input?: Input<O>] : [input: Input<O>];

interface AnyInput {
  path?: Record<string, string>;
  query?: Record<string, string | number | boolean | undefined>;
  body?: unknown;
  signal?: AbortSignal;
}

let onSessionEnded = () => {};

/** Says what happens when the service answers that nobody is signed in. */
export function whenSessionEnds(listener: () => void): void {
  onSessionEnded = listener;
}

/** One request, such as `call('GET /v1/transfers', { query: { limit: 25 } })`. Throws RequestFailed; an AbortError where the signal aborts. */
export async function call<Name extends keyof Operations>(
  name: Name,
  ...[input]: Arguments<Operations[Name]>
): Promise<Answer<Operations[Name]>> {
  const response = await send(name, input);
  return response.status === 204 ? (null as Answer<Operations[Name]>) : response.json();
}

/** Gives the lines of an answer, each a JSON document, as they come. Throws as `call`. */
export async function* lines<Line>(name: keyof Operations, input: AnyInput): AsyncGenerator<Line> {
  const response = await send(name, input);
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  const decoder = new TextDecoder();
  for (let text = ''; ; ) {
    const { done, value } = await reader.read().catch(refuseNetwork);
    if (done) return;
    const complete = (text + decoder.decode(value, { stream: true })).split('\n');
    text = complete.pop() ?? '';
    for (const line of complete) yield JSON.parse(line);
  }
}

async function send(name: string, { path, query, body, signal }: AnyInput = {}): Promise<Response> {
  const [method = '', template = ''] = name.split(' ');
  const response = await fetch(urlOf(template, { path, query }), {
    method,
    ...(body !== undefined && { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
    ...(signal && { signal }),
  }).catch(refuseNetwork);
  if (response.ok) return response;
  const problem: Problem = await response.json().catch(() => ({ ...unreachable(), status: response.status }));
  if (problem.code === 'session_ended' || problem.code === 'api_key_missing') onSessionEnded();
  throw new RequestFailed(problem);
}

function refuseNetwork(error: Error): never {
  throw error.name === 'AbortError' ? error : new RequestFailed(unreachable());
}

/** The address of an operation, its parameters filled in. */
export function urlOf(template: string, { path = {}, query = {} }: { path?: AnyInput['path']; query?: AnyInput['query'] }): string {
  const filled = template.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(path[name] ?? ''));
  const given = Object.entries(query).flatMap(([name, value]) => (value === undefined || value === '' ? [] : [[name, String(value)]]));
  return given.length === 0 ? filled : `${filled}?${new URLSearchParams(given)}`;
}

function unreachable(): Problem {
  return {
    type: 'about:blank',
    title: 'No answer',
    status: 0,
    detail: 'The service does not answer. Is it running, and is the network up?',
    code: 'unavailable',
    request_id: '',
  };
}
