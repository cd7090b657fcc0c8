/** True for an `https` URL without credentials and query; `http` only to this machine. */
export function isHttpsOrLocal({ protocol, hostname, username, search, hash }: URL): boolean {
  if (`${search}${hash}${username}` !== '') return false;
  const local = ['127.0.0.1', '[::1]', 'localhost'].includes(hostname);
  return protocol === 'https:' || (protocol === 'http:' && local);
}
