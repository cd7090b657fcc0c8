import type { FunctionComponent } from 'preact';
import lazy from 'preact-iso/lazy';
import { LocationProvider, Route, Router, useLocation, useRoute } from 'preact-iso/router';
import { ToastProvider } from './components/feedback/toast.tsx';
import { PageCodeLoading, pageCode } from './components/layout/page-code.tsx';
import { Shell } from './components/layout/shell.tsx';
import { ZoneProvider } from './components/values/time-zone.tsx';
import { navigationPageOf } from './navigation.ts';
import { HOME, OverviewProvider } from './overview.tsx';
import { AccountMoved } from './pages/account-moved.tsx';
import { NotAllowedPage } from './pages/not-allowed.tsx';
import { NotFoundPage } from './pages/not-found.tsx';
import { SignInAgain, SignInPage } from './pages/sign-in.tsx';
import { UnavailablePage } from './pages/unavailable.tsx';
import { RequireSession, type Scope, SessionProvider, SIGN_IN, useSession } from './session.tsx';

/**
 * A page whose code is loaded when it is first opened. A session without the scope gets another
 * page: without that of the page's place in the navigation, if none is given.
 */
const page = (load: () => Promise<FunctionComponent>, scope?: Scope): FunctionComponent => {
  const Page = lazy(() => pageCode(load()).catch(() => UnavailablePage));
  return () => {
    const { path } = useRoute();
    const { session } = useSession();
    const needed = scope ?? navigationPageOf(path)?.scope ?? null;
    if (needed !== null && !session.scopes.includes(needed))
      return <NotAllowedPage key={path} scope={needed} />;
    // The router reuses a component for another id. The key drops what the page has of the first id.
    return <Page key={path} />;
  };
};

const HomePage = page(async () => (await import('./pages/home/page.tsx')).HomePage);
const TransferListPage = page(
  async () => (await import('./pages/transfers/list/list.tsx')).TransferListPage,
);
const NewTransferPage = page(
  async () => (await import('./pages/transfers/new/new.tsx')).NewTransferPage,
  'transfers:write',
);
const TransferPage = page(
  async () => (await import('./pages/transfers/detail/detail.tsx')).TransferPage,
);
const ReceiptPage = page(
  async () => (await import('./pages/transfers/detail/receipt.tsx')).ReceiptPage,
);
const BatchListPage = page(async () => (await import('./pages/batches/list.tsx')).BatchListPage);
const BatchPage = page(async () => (await import('./pages/batches/detail.tsx')).BatchPage);
const FlowListPage = page(async () => (await import('./pages/flows/list.tsx')).FlowListPage);
const FlowPage = page(async () => (await import('./pages/flows/detail.tsx')).FlowPage);
const WebhookListPage = page(
  async () => (await import('./pages/webhooks/list.tsx')).WebhookListPage,
);
const FailedDeliveriesPage = page(
  async () => (await import('./pages/webhooks/failed-deliveries.tsx')).FailedDeliveriesPage,
);
const WebhookPage = page(async () => (await import('./pages/webhooks/detail.tsx')).WebhookPage);
const DeliveryPage = page(async () => (await import('./pages/webhooks/delivery.tsx')).DeliveryPage);
const OperationsPage = page(
  async () => (await import('./pages/operations/page.tsx')).OperationsPage,
);
const AuditPage = page(async () => (await import('./pages/audit/page.tsx')).AuditPage);
const CheckpointsPage = page(
  async () => (await import('./pages/checkpoints/page.tsx')).CheckpointsPage,
);
const KeyListPage = page(async () => (await import('./pages/keys/list.tsx')).KeyListPage);
const EndpointListPage = page(
  async () => (await import('./pages/endpoints/list.tsx')).EndpointListPage,
);
const NewEndpointPage = page(
  async () => (await import('./pages/endpoints/edit.tsx')).NewEndpointPage,
  'admin',
);
const EndpointPage = page(async () => (await import('./pages/endpoints/detail.tsx')).EndpointPage);
const EditEndpointPage = page(
  async () => (await import('./pages/endpoints/edit.tsx')).EditEndpointPage,
  'admin',
);

export function App() {
  return (
    <LocationProvider scope="/console">
      <SessionProvider>
        <ToastProvider>
          <ZoneProvider>
            <Pages />
          </ZoneProvider>
        </ToastProvider>
      </SessionProvider>
    </LocationProvider>
  );
}

function Pages() {
  const { path } = useLocation();
  if (path === SIGN_IN) return <SignInPage />;
  return (
    <RequireSession again={<SignInAgain />} moved={<AccountMoved />}>
      <OverviewProvider>
        <Shell>
          <Router>
            <Route path={HOME} component={HomePage} />
            <Route path="/console/transfers" component={TransferListPage} />
            <Route path="/console/transfers/new" component={NewTransferPage} />
            <Route path="/console/transfers/:id" component={TransferPage} />
            <Route path="/console/transfers/:id/receipt" component={ReceiptPage} />
            <Route path="/console/batches" component={BatchListPage} />
            <Route path="/console/batches/:id" component={BatchPage} />
            <Route path="/console/flows" component={FlowListPage} />
            <Route path="/console/flows/:id" component={FlowPage} />
            <Route path="/console/webhooks" component={WebhookListPage} />
            <Route path="/console/webhooks/failed-deliveries" component={FailedDeliveriesPage} />
            <Route path="/console/webhooks/:id" component={WebhookPage} />
            <Route path="/console/webhooks/:id/deliveries/:delivery" component={DeliveryPage} />
            <Route path="/console/operations" component={OperationsPage} />
            <Route path="/console/audit" component={AuditPage} />
            <Route path="/console/checkpoints" component={CheckpointsPage} />
            <Route path="/console/settings/api-keys" component={KeyListPage} />
            <Route path="/console/settings/endpoints" component={EndpointListPage} />
            <Route path="/console/settings/endpoints/new" component={NewEndpointPage} />
            <Route path="/console/settings/endpoints/:id" component={EndpointPage} />
            <Route path="/console/settings/endpoints/:id/edit" component={EditEndpointPage} />
            <Route default component={NotFoundPage} />
          </Router>
          <PageCodeLoading />
        </Shell>
      </OverviewProvider>
    </RequireSession>
  );
}
