/** Elements by name. A list is a sequence of elements of one name; undefined is none. */
export type Xml = string | number | boolean | undefined | Xml[] | { [name: string]: Xml };

const ENTITIES: Record<string, string> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  '\r': '&#13;',
};

export function document(name: string, content: Xml, namespace = true): string {
  const root = namespace ? `${name} xmlns="http://s3.amazonaws.com/doc/2006-03-01/"` : name;
  return `<?xml version="1.0" encoding="UTF-8"?>\n<${root}>${inner(content)}</${name}>`;
}

function inner(content: Xml): string {
  if (content === undefined) return '';
  if (typeof content !== 'object')
    return String(content).replace(/[&<>"\r]/g, (character) => ENTITIES[character] as string);
  return Object.entries(content)
    .flatMap(([name, value]) =>
      (Array.isArray(value) ? value : [value]).map((one) =>
        one === undefined ? '' : `<${name}>${inner(one)}</${name}>`,
      ),
    )
    .join('');
}

/**
 * Returns the texts of the elements directly within each `<name>`, for documents as flat as those
 * that S3 accepts.
 */
export function elements(text: string, name: string): Record<string, string>[] {
  return [...text.matchAll(new RegExp(`<${name}>(.*?)</${name}>`, 'gs'))].map(([, content]) =>
    Object.fromEntries(
      [...(content as string).matchAll(/<(\w+)>([^<]*)<\/\1>/g)].map(([, key, value]) => [
        key,
        unescaped(value as string),
      ]),
    ),
  );
}

function unescaped(text: string): string {
  return text
    .replace(/&(?:quot|#34|#x22);/g, '"')
    .replace(/&lt;/g, '<')
    .replace(/&gt;/g, '>')
    .replace(/&amp;/g, '&');
}
