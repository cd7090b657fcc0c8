import { render } from 'preact';
import { App } from './app.tsx';
import { applyTheme, storedTheme } from './components/layout/theme-switch.tsx';

applyTheme(storedTheme());
const app = document.getElementById('app') as HTMLElement;
// What says that the console loads. Preact would leave it beside a page of other elements.
app.replaceChildren();
// Enter that is held presses a button once: it may do something else by the next time.
document.addEventListener('keydown', (event) => {
  if (event.repeat && event.key === 'Enter' && event.target instanceof HTMLButtonElement)
    event.preventDefault();
});
render(<App />, app);
