/**
 * A modification time: the seconds since 1970 in decimal, with at most nine digits after the point,
 * such as `1700000000.25`. S3 objects have it in this form in rclone's metadata key `mtime`.
 */
export type UnixTime = string;

/** The metadata key in which rclone keeps the modification time of a file, on S3 and Azure. */
export const MTIME_KEY = 'mtime';

const LAST_SECOND = Date.parse('9999-12-31T23:59:59Z') / 1_000;

/** Returns null for anything but a time between 1970 and 9999. */
export function toUnixTime(value: string | number | null | undefined): UnixTime | null {
  const text = String(value ?? '');
  if (!/^\d{1,12}(\.\d{1,9})?$/.test(text) || Number(text) >= LAST_SECOND) return null;
  // As rclone writes it: without zeros at the end of the fraction.
  return text.replace(/(\.\d*?)0+$/, '$1').replace(/\.$/, '');
}

export function wholeSeconds(time: UnixTime): number {
  return Math.floor(Number(time));
}

export function isSameSecond(a: UnixTime, b: UnixTime): boolean {
  return wholeSeconds(a) === wholeSeconds(b);
}

/** Converts to RFC 3339, with `digits` digits after the point: by default those that it has. */
export function toRfc3339(time: UnixTime, digits = 0): string {
  const [, fraction = ''] = time.split('.');
  const decimals = fraction.padEnd(digits, '0');
  const seconds = new Date(wholeSeconds(time) * 1_000).toISOString().slice(0, 19);
  return `${seconds}${decimals && '.'}${decimals}Z`;
}

/** Returns null for text that is no RFC 3339 time. */
export function fromRfc3339(text: string | null | undefined): UnixTime | null {
  const [, seconds, fraction = '', zone] =
    /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$/.exec(text ?? '') ?? [];
  return toUnixTime(`${Date.parse(`${seconds}${zone}`) / 1_000}${fraction}`);
}

/** Converts from the form of FTP (RFC 3659): `YYYYMMDDHHMMSS` and a fraction, in UTC. */
export function fromFtp(text: string | null): UnixTime | null {
  return fromRfc3339(
    text?.replace(/^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(\.\d+)?$/, '$1-$2-$3T$4:$5:$6$7Z'),
  );
}

/** Converts to the form of FTP. Fractions are optional there, so it has none. */
export function toFtp(time: UnixTime): string {
  return toRfc3339(time).slice(0, 19).replace(/\D/g, '');
}
