import { DomainError, type FieldError } from '../domain/errors.ts';

/** Maximum number of errors in one answer. */
const MAX_ERRORS = 20;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

interface Container {
  /** The keys so far. Null for an array. */
  keys: Set<string> | null;
  /** The key or index that is being read. */
  at: string | number;
}

/**
 * Parses JSON. Throws a SyntaxError for other text. Throws `validation_failed` for duplicate keys,
 * because parsers differ in which one they take, and for `__proto__`, which would be lost or change
 * an object's prototype.
 */
export function parseStrictly(text: string): unknown {
  const value: unknown = JSON.parse(text);
  const errors = keyErrors(text);
  if (errors.length === 0) return value;
  const detail = errors.map(({ field, message }) => `${field}: ${message}`).join('; ');
  throw new DomainError('validation_failed', detail, { errors });
}

/** Finds forbidden keys. `text` must be valid JSON. */
function keyErrors(text: string): FieldError[] {
  const errors = new Map<string, FieldError>();
  const containers: Container[] = [];
  let container: Container | undefined;
  let string = '';
  for (let i = 0; i < text.length && errors.size < MAX_ERRORS; i++) {
    switch (text[i]) {
      case '"': {
        const end = endOfString(text, i);
        string = text.slice(i, end + 1);
        i = end;
        break;
      }
      case ':': {
        const key = string.includes('\\') ? (JSON.parse(string) as string) : string.slice(1, -1);
        const message = container && faultOf(key, container);
        if (message) {
          const field = key === '__proto__' ? key : containers.map(({ at }) => at).join('.');
          errors.set(field, { field, code: 'validation_failed', message });
        }
        break;
      }
      case ',':
        if (typeof container?.at === 'number') container.at++;
        break;
      case '{':
        container = { keys: new Set(), at: '' };
        containers.push(container);
        break;
      case '[':
        container = { keys: null, at: 0 };
        containers.push(container);
        break;
      case '}':
      case ']':
        containers.pop();
        container = containers.at(-1);
        break;
    }
  }
  return [...errors.values()];
}

/** Returns the index of the closing quote of the string that starts at `start`. */
function endOfString(text: string, start: number): number {
  let end = start + 1;
  for (let code = text.charCodeAt(end); code !== QUOTE; code = text.charCodeAt(end))
    end += code === BACKSLASH ? 2 : 1;
  return end;
}

/** Records a key of an object. Returns what is wrong with it, or null. */
function faultOf(key: string, container: Container): string | null {
  container.at = key;
  if (key === '__proto__') return 'must not be used as a key';
  if (container.keys?.has(key)) return 'must be given once';
  container.keys?.add(key);
  return null;
}
