import { FileError, type FileStep } from '../port.ts';

/** The server answers HTTP requests, but not as the service of the endpoint's protocol does. */
export class OtherService extends FileError {
  constructor(service: string, { host }: URL, answer: string) {
    super('connection_failed', 'sign_in', `${host} is not ${service}: it answered with ${answer}`);
  }
}

/** Returns whether a proxy in front of the service may have sent an answer with this status. */
export function mayBeOfProxy(status: number): boolean {
  return status >= 500 || status === 408 || status === 429;
}

/**
 * Returns the error for a success whose answer lacks what the service always says. A proxy in front
 * of it may have answered with a page of its own.
 */
export function pageInPlace(name: string, step: FileStep): FileError {
  const message = `${name}: the answer is not one of the service, a proxy may have sent a page`;
  return new FileError('connection_failed', step, message);
}
