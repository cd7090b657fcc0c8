import type { IconName } from './components/values/icon.tsx';
import { HOME } from './overview.tsx';
import type { Scope } from './session.tsx';

/** A page of the navigation. The addresses below its own belong to it. */
export interface NavigationPage {
  href: string;
  label: string;
  icon: IconName;
  /** Null if every session may open it. */
  scope: Scope | null;
}

export const NAVIGATION: { heading: string; pages: NavigationPage[] }[] = [
  {
    heading: 'Work',
    pages: [
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
    pages: [
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

/** Returns the page of the navigation with the longest address that is a prefix of the path. */
export function navigationPageOf(path: string): NavigationPage | undefined {
  return NAVIGATION.flatMap(({ pages }) => pages)
    .filter(({ href }) => path === href || (href !== HOME && path.startsWith(`${href}/`)))
    .toSorted((a, b) => b.href.length - a.href.length)[0];
}
