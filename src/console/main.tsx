import { render } from 'preact';
import { App } from './app.tsx';
import { applyTheme, storedTheme } from './components/layout/theme-switch.tsx';

applyTheme(storedTheme());
const app = document.getElementById('app') as HTMLElement;
// What says that the console loads. Preact would leave it beside a page of other elements.
app.replaceChildren();
render(<App />, app);
