import { render } from 'preact';
import { App } from './app.tsx';
import { applyTheme, storedTheme } from './components/layout/theme-switch.tsx';

applyTheme(storedTheme());
render(<App />, document.getElementById('app') as HTMLElement);
