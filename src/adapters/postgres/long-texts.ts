/*
 * Sends and reads texts with a thousand documents.
 *
 * V8 allocates each string of more than 128 KiB on its own, which takes two to three milliseconds
 * on some virtual machines. So no such string is made: a text leaves and arrives in parts.
 */

/** Length of a part, in characters or bytes. A character takes up to two bytes in V8. */
const PART = 60_000;

/** A long text. The driver sends its parts one after the other. */
export class Parts extends Array<string> {}

/** Returns the texts with separators between them, in parts if that is a long text. */
export function joinTexts(texts: string[], separator: string): string | Parts {
  const parts = new Parts();
  let start = 0;
  let length = 0;
  for (const [i, text] of texts.entries()) {
    if (length > 0 && length + text.length > PART) {
      parts.push(texts.slice(start, i).join(separator), separator);
      start = i;
      length = 0;
    }
    length += text.length + separator.length;
  }
  const rest = texts.slice(start).join(separator);
  return parts.length === 0 ? rest : Parts.of(...parts, rest);
}

/** Splits a UTF-8 text at each separator, an ASCII character. */
export function splitText(text: Buffer, separator: string): string[] {
  const [first, ...others] = decodeText(text, separator);
  const found = (first as string).split(separator);
  for (const part of others) for (const item of part.split(separator)) found.push(item);
  return found;
}

/** Decodes a UTF-8 text. A long one comes in parts, without the separators between them. */
export function decodeText(text: Buffer, separator: string): string[] {
  const code = separator.charCodeAt(0);
  const parts: string[] = [];
  let start = 0;
  while (text.length - start > PART) {
    const last = text.lastIndexOf(code, start + PART);
    const end = last < start ? text.indexOf(code, start + PART) : last;
    if (end < 0) break;
    parts.push(text.toString('utf8', start, end));
    start = end + 1;
  }
  return [...parts, text.toString('utf8', start)];
}

/** Returns the bytes of a `bytea` column as Postgres sends it: `\x` and hexadecimal digits. */
export function decodeBytea(text: Buffer): Buffer {
  const digits = text.subarray(2);
  const bytes = Buffer.allocUnsafeSlow(digits.length / 2);
  for (let start = 0; start < digits.length; start += PART)
    bytes.write(digits.toString('latin1', start, start + PART), start / 2, 'hex');
  return bytes;
}
