import { FileError } from '../port.ts';

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
