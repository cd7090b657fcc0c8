import { fieldName } from '../../contract/validation-messages.ts';
import { type FieldError, fieldError, fieldErrors, MAX_ERRORS } from '../../domain/errors.ts';

/** Deeper than any request, so that the name of a field stays short. */
const DEEPEST = 64;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

interface Container {
  /** How often each key came so far. Null for an array. */
  keys: Map<string, number> | null;
  /** The key or index that is being read. */
  at: string | number;
}

/**
 * Parses JSON. Throws a SyntaxError for other text. Throws `validation_failed` for duplicate keys,
 * because parsers differ in which one they take, for `__proto__`, which would be lost or change an
 * object's prototype, and for more than `DEEPEST` levels.
 */
export function parseStrictly(text: string): unknown {
  const value: unknown = JSON.parse(text);
  const { errors, others } = keyErrors(text);
  if (errors.length === 0) return value;
  throw fieldErrors(errors, others);
}

/** Finds the first forbidden keys, and counts the others. `text` must be valid JSON. */
function keyErrors(text: string): { errors: FieldError[]; others: number } {
  const errors: FieldError[] = [];
  let others = 0;
  const containers: Container[] = [];
  let container: Container | undefined;
  let string = '';
  for (let i = 0; i < text.length; i++) {
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
        if (!message) break;
        if (errors.length < MAX_ERRORS) {
          const field = fieldName(containers.map(({ at }) => at));
          errors.push({ field, code: 'validation_failed', message });
        } else others++;
        break;
      }
      case ',':
        if (typeof container?.at === 'number') container.at++;
        break;
      case '{':
      case '[':
        if (containers.length === DEEPEST)
          throw fieldError('', `the body must not be nested deeper than ${DEEPEST} levels`);
        container = text[i] === '{' ? { keys: new Map(), at: '' } : { keys: null, at: 0 };
        containers.push(container);
        break;
      case '}':
      case ']':
        containers.pop();
        container = containers.at(-1);
        break;
    }
  }
  return { errors, others };
}

/** Returns the index of the closing quote of the string that starts at `start`. */
function endOfString(text: string, start: number): number {
  let end = start + 1;
  for (let code = text.charCodeAt(end); code !== QUOTE; code = text.charCodeAt(end))
    end += code === BACKSLASH ? 2 : 1;
  return end;
}

/** Records a key of an object. Returns what is wrong with it, or null. Reports each key once. */
function faultOf(key: string, container: Container): string | null {
  container.at = key;
  const times = (container.keys?.get(key) ?? 0) + 1;
  container.keys?.set(key, times);
  if (!key.isWellFormed()) return 'must not contain an unpaired surrogate';
  if (key === '__proto__') return times === 1 ? 'must not be used as a key' : null;
  return times === 2 ? 'must be given once' : null;
}
