/** A text of the service. What stands in backticks becomes code. */
export function MarkedText({ children }: { children: string }) {
  const parts = children.split('`');
  // A single backtick is part of a name.
  if (parts.length % 2 === 0) return <>{children}</>;
  return <>{parts.map((part, at) => (at % 2 === 1 ? <code key={at}>{part}</code> : part))}</>;
}
