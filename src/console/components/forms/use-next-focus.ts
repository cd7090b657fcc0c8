import { useLayoutEffect, useRef } from 'preact/hooks';

type Find = () => HTMLElement | null | undefined;

/**
 * Returns a function for the press of a button that adds or replaces fields. It moves the focus to
 * one of them when they are there: they are before the button, or the button goes.
 */
export function useNextFocus(): (find: Find) => void {
  const next = useRef<Find | null>(null);
  useLayoutEffect(() => {
    next.current?.()?.focus();
    next.current = null;
  });
  return (find) => {
    next.current = find;
  };
}
