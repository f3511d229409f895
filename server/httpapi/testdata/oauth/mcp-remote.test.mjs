// mcp-remote is a program of its own: it registers, opens the browser, listens for the answer, and then passes messages on
// between its standard input and the server.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import test from 'node:test';

const home = mkdtempSync(join(tmpdir(), 'bough-mcp-remote-'));

// start starts the program; call sends it a request and returns the answer.
function start() {
  const child = spawn(process.execPath, ['node_modules/mcp-remote/dist/proxy.js', new URL('/mcp', process.env.BOUGH_URL).href, '--transport', 'http-only'], {
    env: { ...process.env, MCP_REMOTE_CONFIG_DIR: home, BROWSER: join(process.cwd(), 'open.mjs'), DISPLAY: ':0' }, stdio: ['pipe', 'pipe', 'pipe'],
  });
  let log = '';
  child.stderr.on('data', (text) => log += text);
  const waiting = new Map();
  createInterface({ input: child.stdout }).on('line', (line) => {
    const message = JSON.parse(line);
    waiting.get(message.id)?.(message);
  });
  const ended = new Promise((done) => child.on('exit', done));
  let id = 0;
  return {
    log: () => log,
    async call(method, params) {
      const mine = ++id;
      const answer = new Promise((resolve, reject) => {
        waiting.set(mine, resolve);
        child.on('exit', () => reject(new Error(`mcp-remote ended:\n${log}`)));
        setTimeout(() => reject(new Error(`no answer to ${method}:\n${log}`)), 25_000).unref();
      });
      child.stdin.write(JSON.stringify({ jsonrpc: '2.0', id: mine, method, params }) + '\n');
      const got = await answer;
      assert.equal(got.error, undefined, JSON.stringify(got.error));
      return got.result;
    },
    note: (method) => child.stdin.write(JSON.stringify({ jsonrpc: '2.0', method }) + '\n'),
    async end() { child.stdin.end(); child.kill(); await ended; },
  };
}

async function tools(program) {
  await program.call('initialize', { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'test', version: '1' } });
  program.note('notifications/initialized');
  return (await program.call('tools/list', {})).tools;
}

test('mcp-remote', async () => {
  const first = start();
  let listed;
  try {
    listed = await tools(first);
    assert.ok(listed.length > 0);
  } finally {
    await first.end();
  }
  // It keeps its tokens: started again, it asks nobody.
  const opened = async () => Number(await (await fetch(process.env.BOUGH_OPEN)).text());
  const was = await opened();
  const second = start();
  try {
    assert.equal((await tools(second)).length, listed.length);
  } finally {
    await second.end();
  }
  assert.equal(await opened(), was);
});
