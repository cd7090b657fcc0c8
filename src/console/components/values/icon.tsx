const PATHS = {
  brand: 'M3 6l4 12 5-10 5 10 4-12',
  home: 'M4 11l8-7 8 7v9h-5v-6H9v6H4z',
  transfers: 'M4 8h13m-4-4 4 4-4 4M20 16H7m4-4-4 4 4 4',
  batches: 'M4 4h16v4H4zM4 10h16v4H4zM4 16h16v4H4z',
  flows: 'M3 7h6l3 5 3-5h6M12 12v8m-3-3 3 3 3-3',
  webhooks: 'M13 3 5 14h6l-1 7 9-12h-7z',
  failed:
    'M12 8v5m0 3.500v.1M10.3 4 2.6 18a2 2 0 0 0 1.7 3h15.400a2 2 0 0 0 1.7-3L13.7 4a2 2 0 0 0-3.4 0z',
  operations: 'M3 12h4l3-8 4 16 3-8h4',
  endpoints: 'M4 4h16v6H4zM4 14h16v6H4zM8 7h.1M8 17h.1',
  keys: 'M15 9a4 4 0 1 1-8 0 4 4 0 0 1 8 0zm-1.5 2.500L21 19m-3-3-2 2',
  audit: 'M6 3h12v18H6zM9 8h6M9 12h6M9 16h3',
  checkpoints: 'M12 3l8 3v6c0 5-3.500 8-8 9-4.500-1-8-4-8-9V6zM8.500 12l2.500 2.500 4.500-5',
  menu: 'M4 6h16M4 12h16M4 18h16',
  close: 'M6 6l12 12M18 6 6 18',
  filters: 'M4 6h16M7 12h10M10 18h4',
  copy: 'M9 9h11v11H9zM5 15H4V4h11v1',
  check: 'M5 12l5 5 9-10',
  folder: 'M3 6h6l2 2h10v11H3z',
  file: 'M6 3h8l4 4v14H6zM14 3v4h4',
  up: 'M12 19V5m-6 6 6-6 6 6',
  theme: 'M12 3a9 9 0 1 0 0 18zM12 3a9 9 0 0 1 0 18',
  plus: 'M12 5v14M5 12h14',
} as const;

export type IconName = keyof typeof PATHS;

/** An icon beside a text with the same meaning; hidden from screen readers. */
export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} />
    </svg>
  );
}
