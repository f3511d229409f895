// The person at the computer, and the applications' way of hearing that she is done.
import { createServer } from 'node:http';

// open shows a page to the person, as an application does that starts a browser.
export async function open(url) {
  const answer = await fetch(process.env.BOUGH_OPEN, { method: 'POST', body: String(url) });
  if (!answer.ok) throw new Error(`the browser was not started: ${answer.status}`);
}

// listen waits on a port of the moment for the person to come back. next returns the URL that she came back with.
export async function listen() {
  const waiting = [], came = [];
  const server = createServer((request, response) => {
    response.end('<!doctype html><title>done</title><p id=done>Close this window.');
    const url = new URL(request.url, redirectUri);
    if (url.pathname !== '/callback') return;
    const first = waiting.shift();
    if (first) first(url); else came.push(url);
  });
  await new Promise((ready) => server.listen(0, '127.0.0.1', ready));
  const redirectUri = `http://127.0.0.1:${server.address().port}/callback`;
  return {
    redirectUri,
    next: () => came.length ? Promise.resolve(came.shift()) : new Promise((resolve) => waiting.push(resolve)),
    close() { server.close(); server.closeAllConnections(); },
  };
}
