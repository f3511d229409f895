// oauth4webapi follows the RFCs to the letter, and refuses answers that do not.
import assert from 'node:assert/strict';
import test from 'node:test';
import * as oauth from 'oauth4webapi';
import { listen, open } from './person.mjs';

const issuer = new URL(process.env.BOUGH_URL);
const resource = new URL('/mcp', issuer);
const plain = { [oauth.allowInsecureRequests]: true }; // http, on loopback

test('from discovery to revocation', async () => {
  const described = await oauth.processResourceDiscoveryResponse(resource, await oauth.resourceDiscoveryRequest(resource, plain));
  assert.deepEqual(described.authorization_servers, [issuer.origin]);
  const server = await oauth.processDiscoveryResponse(issuer, await oauth.discoveryRequest(issuer, { algorithm: 'oauth2', ...plain }));
  assert.equal(server.authorization_response_iss_parameter_supported, true);

  const back = await listen();
  try {
    const client = await oauth.processDynamicClientRegistrationResponse(await oauth.dynamicClientRegistrationRequest(server,
      { client_name: 'oauth4webapi', redirect_uris: [back.redirectUri], token_endpoint_auth_method: 'none' }, plain));
    assert.equal(client.client_secret, undefined);

    // ask sends the person to the page and returns the checked answer.
    const ask = async (verifier, more = {}) => {
      const state = oauth.generateRandomState();
      const url = new URL(server.authorization_endpoint);
      for (const [name, value] of Object.entries({
        client_id: client.client_id, redirect_uri: back.redirectUri, response_type: 'code', state, resource: resource.href, scope: 'read:tables read:schema',
        code_challenge: await oauth.calculatePKCECodeChallenge(verifier), code_challenge_method: 'S256', ...more,
      })) url.searchParams.set(name, value);
      await open(url);
      return oauth.validateAuthResponse(server, client, await back.next(), state);
    };
    const redeem = async (answer, verifier) => oauth.processAuthorizationCodeResponse(server, client, await oauth.authorizationCodeGrantRequest(
      server, client, oauth.None(), answer, back.redirectUri, verifier, { additionalParameters: { resource: resource.href }, ...plain }));
    const refresh = async (token) => oauth.processRefreshTokenResponse(server, client,
      await oauth.refreshTokenGrantRequest(server, client, oauth.None(), token, plain));

    const verifier = oauth.generateRandomCodeVerifier();
    const answer = await ask(verifier);
    const first = await redeem(answer, verifier);
    assert.equal(first.scope, 'read:tables read:schema');
    assert.equal(first.token_type, 'bearer'); // lower-cased by the library
    assert.equal(first.expires_in, 3600);
    const second = await refresh(first.refresh_token);
    assert.notEqual(second.access_token, first.access_token);
    await oauth.processRevocationResponse(await oauth.revocationRequest(server, client, oauth.None(), second.refresh_token, plain));
    await assert.rejects(refresh(second.refresh_token), { error: 'invalid_grant' });
    await assert.rejects(redeem(answer, verifier), { error: 'invalid_grant' });

    // Refusals arrive as the library's own errors, by redirect as by answer.
    await assert.rejects(ask(verifier, { scope: 'everything' }), { error: 'invalid_scope' });
    await assert.rejects(ask(verifier, { resource: 'https://other.example/' }), { error: 'invalid_target' });
    const unknown = { client_id: 'mcp_nobodyknowsthisone00' };
    await assert.rejects(async () => oauth.processRefreshTokenResponse(server, unknown,
      await oauth.refreshTokenGrantRequest(server, unknown, oauth.None(), 'mcp_rt_x', plain)), (e) => e.error === 'invalid_client' || e instanceof oauth.WWWAuthenticateChallengeError);
    await assert.rejects(async () => oauth.processDynamicClientRegistrationResponse(await oauth.dynamicClientRegistrationRequest(server,
      { redirect_uris: ['https://evil.example/cb'] }, plain)), { error: 'invalid_redirect_uri' });
  } finally {
    back.close();
  }
});

test('the MCP server takes its tokens only, and says where to get them', async () => {
  for (const token of ['mcp_at_' + 'A'.repeat(43), 'x', process.env.BOUGH_TOKEN]) {
    await assert.rejects(oauth.protectedResourceRequest(token, 'POST', resource, new Headers({ 'content-type': 'application/json' }),
      JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' }), plain), (error) => {
      assert.ok(error instanceof oauth.WWWAuthenticateChallengeError, error);
      assert.equal(error.status, 401);
      const [{ scheme, parameters }] = error.cause;
      assert.equal(scheme, 'bearer');
      assert.equal(parameters.error, 'invalid_token');
      assert.equal(parameters.resource_metadata, new URL('/.well-known/oauth-protected-resource/mcp', issuer).href);
      return true;
    });
  }
});
