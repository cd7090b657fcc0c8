import { Path } from '../../components/values/names.tsx';

/** Letters, digits and spaces of names. Others stay encoded: some would reorder or hide text. */
const PLAIN = /[\p{L}\p{M}\p{N}\p{Extended_Pictographic} ]/u;
/** A longer one takes the whole width of a list of facts. */
const LENGTHY = 150;

/** Returns a URI for people: `über mich.csv` in place of `%C3%BCber%20mich.csv`. */
export function readable(uri: string): string {
  return uri.replace(/(?:%[0-9A-F]{2})+/gi, (encoded) => {
    try {
      const characters = [...decodeURIComponent(encoded)];
      return characters.map((one) => (PLAIN.test(one) ? one : encodeURIComponent(one))).join('');
    } catch {
      return encoded;
    }
  });
}

/** Returns the folder of a URI that ends with this name; the whole URI of a file of another name. */
export function withoutName(uri: string, name: string): string {
  return uri.endsWith(`/${name}`) ? uri.slice(0, -name.length) : uri;
}

/** A URI as it is, to be copied. */
export function Uri({ of }: { of: string }) {
  return (
    <code class={of.length > LENGTHY ? 'lengthy' : undefined}>
      <Path of={of} />
    </code>
  );
}
