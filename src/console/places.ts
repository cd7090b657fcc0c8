import type { IconName } from './components/values/icon.tsx';
import { HOME } from './overview.tsx';
import type { Scope } from './session.tsx';

/** A page of the navigation. The addresses below its own belong to it. */
export interface Place {
  href: string;
  label: string;
  icon: IconName;
  /** Null if every session may open it. */
  scope: Scope | null;
}

export const PLACES: { heading: string; places: Place[] }[] = [
  {
    heading: 'Work',
    places: [
      { href: HOME, label: 'Home', icon: 'home', scope: null },
      {
        href: '/console/transfers',
        label: 'Transfers',
        icon: 'transfers',
        scope: 'transfers:read',
      },
      { href: '/console/batches', label: 'Batches', icon: 'batches', scope: 'transfers:read' },
      { href: '/console/flows', label: 'Flows', icon: 'flows', scope: 'flows:read' },
      { href: '/console/webhooks', label: 'Webhooks', icon: 'webhooks', scope: 'webhooks:read' },
      {
        href: '/console/webhooks/failed-deliveries',
        label: 'Failed deliveries',
        icon: 'failed',
        scope: 'observe',
      },
      { href: '/console/operations', label: 'Operations', icon: 'operations', scope: 'admin' },
      { href: '/console/audit', label: 'Audit log', icon: 'audit', scope: 'audit:all' },
      {
        href: '/console/checkpoints',
        label: 'Checkpoints',
        icon: 'checkpoints',
        scope: 'audit:all',
      },
    ],
  },
  {
    heading: 'Settings',
    places: [
      {
        href: '/console/settings/endpoints',
        label: 'Endpoints',
        icon: 'endpoints',
        scope: 'observe',
      },
      { href: '/console/settings/api-keys', label: 'API keys', icon: 'keys', scope: 'admin' },
    ],
  },
];

/** Returns the place with the longest address that is a prefix of the path. */
export function placeOf(path: string): Place | undefined {
  return PLACES.flatMap(({ places }) => places)
    .filter(({ href }) => path === href || (href !== HOME && path.startsWith(`${href}/`)))
    .toSorted((a, b) => b.href.length - a.href.length)[0];
}
