/** Prints a line with the time, for a person who watches the run. */
export function say(text: string): void {
  console.log(`${new Date().toISOString().slice(11, 19)} ${text}`);
}
