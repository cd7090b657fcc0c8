import { LocationProvider, Route, Router, useLocation } from 'preact-iso/router';
import { Shell } from './components/shell.tsx';
import { ZoneProvider } from './components/time-zone.tsx';
import { ToastProvider } from './components/toast.tsx';
import { EndpointPage } from './pages/endpoints/detail.tsx';
import { EditEndpointPage, NewEndpointPage } from './pages/endpoints/edit.tsx';
import { EndpointListPage } from './pages/endpoints/list.tsx';
import { KeyListPage } from './pages/keys/list.tsx';
import { NotFoundPage } from './pages/not-found.tsx';
import { OperationsPage } from './pages/operations/page.tsx';
import { SignInPage } from './pages/sign-in.tsx';
import { TransferPage } from './pages/transfers/detail.tsx';
import { TransferListPage } from './pages/transfers/list.tsx';
import { NewTransferPage } from './pages/transfers/new.tsx';
import { DeliveryPage } from './pages/webhooks/delivery.tsx';
import { WebhookPage } from './pages/webhooks/detail.tsx';
import { FailedDeliveriesPage } from './pages/webhooks/failed-deliveries.tsx';
import { WebhookListPage } from './pages/webhooks/list.tsx';
import { RequireSession, SessionProvider, SIGN_IN } from './session.tsx';

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
    <RequireSession>
      <Shell>
        <Router>
          <Route path="/console" component={TransferListPage} />
          <Route path="/console/transfers" component={TransferListPage} />
          <Route path="/console/transfers/new" component={NewTransferPage} />
          <Route path="/console/transfers/:id" component={TransferPage} />
          <Route path="/console/webhooks" component={WebhookListPage} />
          <Route path="/console/webhooks/failed-deliveries" component={FailedDeliveriesPage} />
          <Route path="/console/webhooks/:id" component={WebhookPage} />
          <Route path="/console/webhooks/:id/deliveries/:delivery" component={DeliveryPage} />
          <Route path="/console/operations" component={OperationsPage} />
          <Route path="/console/settings/api-keys" component={KeyListPage} />
          <Route path="/console/settings/endpoints" component={EndpointListPage} />
          <Route path="/console/settings/endpoints/new" component={NewEndpointPage} />
          <Route path="/console/settings/endpoints/:id" component={EndpointPage} />
          <Route path="/console/settings/endpoints/:id/edit" component={EditEndpointPage} />
          <Route default component={NotFoundPage} />
        </Router>
      </Shell>
    </RequireSession>
  );
}
