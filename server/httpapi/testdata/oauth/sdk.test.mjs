// The MCP SDK for TypeScript: its 1.x, which most clients have, and the client of 2.x.
import assert from 'node:assert/strict';
import test from 'node:test';
import * as one from '@modelcontextprotocol/sdk/client/auth.js';
import { Client as ClientOne } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as TransportOne } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import * as two from '@modelcontextprotocol/client';
import { listen, open } from './person.mjs';

const serverUrl = new URL('/mcp', process.env.BOUGH_URL);

// Provider keeps what an application keeps between its starts.
class Provider {
  opened = 0;
  constructor(back, name) { this.back = back; this.name = name; }
  get redirectUrl() { return this.back.redirectUri; }
  get clientMetadata() {
    return {
      client_name: this.name, redirect_uris: [this.back.redirectUri], grant_types: ['authorization_code', 'refresh_token'], response_types: ['code'],
      token_endpoint_auth_method: 'none',
    };
  }
  state() { return this.sent = crypto.randomUUID(); }
  clientInformation() { return this.client; }
  saveClientInformation(client) { this.client = client; }
  tokens() { return this.have; }
  saveTokens(tokens) { this.have = tokens; }
  async redirectToAuthorization(url) { this.opened++; this.asked = url; await open(url); }
  saveCodeVerifier(verifier) { this.verifier = verifier; }
  codeVerifier() { return this.verifier; }
  saveDiscoveryState(found) { this.found = found; }
  discoveryState() { return this.found; }
  invalidateCredentials(what) {
    if (what === 'all' || what === 'client') this.client = undefined;
    if (what === 'all' || what === 'tokens') this.have = undefined;
    if (what === 'all' || what === 'verifier') this.verifier = undefined;
    if (what === 'all' || what === 'discovery') this.found = undefined;
  }
}

// comeBack waits for the person and returns what the application was told.
async function comeBack(provider) {
  const url = await provider.back.next();
  assert.equal(url.searchParams.get('state'), provider.sent);
  assert.equal(url.searchParams.get('error'), null);
  return { authorizationCode: url.searchParams.get('code'), iss: url.searchParams.get('iss') };
}

const remove = async (clientId) => {
  const answer = await fetch(new URL(`/api/v1/admin/oauth/clients/${clientId}`, serverUrl), { method: 'DELETE', headers: { 'X-Service-Key': process.env.BOUGH_SERVICE_KEY } });
  assert.equal(answer.status, 204);
};

for (const [name, auth] of [['the SDK 1.x', one.auth], ['the client 2.x', two.auth]]) {
  test(`${name}: from nothing to tokens, through refresh, revocation and loss`, async () => {
    const back = await listen();
    try {
      const provider = new Provider(back, name);
      assert.equal(await auth(provider, { serverUrl }), 'REDIRECT');
      assert.equal(provider.asked.searchParams.get('resource'), serverUrl.href);
      assert.match(provider.client.client_id, /^mcp_/);
      assert.equal(provider.client.client_secret, undefined);
      assert.equal(await auth(provider, { serverUrl, ...await comeBack(provider) }), 'AUTHORIZED');
      const first = provider.have;
      assert.match(first.access_token, /^mcp_at_/);
      // Those that lead to something.
      assert.deepEqual(first.scope.split(' ').sort(), ['execute:rpc', 'read:schema', 'read:tables', 'write:tables']);

      // It has tokens: it renews them, and nobody is asked.
      assert.equal(await auth(provider, { serverUrl }), 'AUTHORIZED');
      assert.notEqual(provider.have.access_token, first.access_token);
      assert.equal(provider.opened, 1);

      // Tokens that were revoked: it asks again, as the client that it is.
      const was = provider.client.client_id;
      const answer = await fetch(new URL('/mcp/oauth/revoke', serverUrl), { method: 'POST', body: new URLSearchParams({ token: provider.have.refresh_token }) });
      assert.equal(answer.status, 200);
      assert.equal(await auth(provider, { serverUrl }), 'REDIRECT');
      assert.equal(await auth(provider, { serverUrl, ...await comeBack(provider) }), 'AUTHORIZED');
      assert.equal(provider.client.client_id, was);

      // A client that was removed: it registers anew.
      await remove(was);
      assert.equal(await auth(provider, { serverUrl }), 'REDIRECT');
      assert.notEqual(provider.client.client_id, was);
      assert.equal(await auth(provider, { serverUrl, ...await comeBack(provider) }), 'AUTHORIZED');
      assert.equal(provider.opened, 3);
    } finally {
      back.close();
    }
  });
}

for (const [name, Client, Transport, Unauthorized] of [
  ['the SDK 1.x', ClientOne, TransportOne, one.UnauthorizedError], ['the client 2.x', two.Client, two.StreamableHTTPClientTransport, two.UnauthorizedError],
]) {
  test(`${name}: connects, is sent away, asks and lists the tools`, async () => {
    const back = await listen();
    try {
      const provider = new Provider(back, `${name}, connected`);
      const attempt = new Transport(serverUrl, { authProvider: provider });
      await assert.rejects(new Client({ name: 'test', version: '1' }).connect(attempt), Unauthorized);
      const { authorizationCode, iss } = await comeBack(provider);
      await attempt.finishAuth(authorizationCode, iss);
      const client = new Client({ name: 'test', version: '1' });
      await client.connect(new Transport(serverUrl, { authProvider: provider }));
      const { tools } = await client.listTools();
      assert.ok(tools.length > 0);

      // The access token ends, and the transport renews it on its way.
      const had = provider.have.access_token;
      await fetch(new URL('/mcp/oauth/revoke', serverUrl), { method: 'POST', body: new URLSearchParams({ token: had }) });
      assert.equal((await client.listTools()).tools.length, tools.length);
      await new Promise((done) => setTimeout(done, 10));
      assert.equal(provider.opened, 1);
      await client.close();
    } finally {
      back.close();
    }
  });
}
