// Shows /openapi.json of the branch that ?branch= names. The credential stays in this page's memory: it is neither
// stored nor put into an address.
'use strict';

const field = (id) => document.getElementById(id);
const headers = { BearerAuth: 'Authorization', ClientKey: 'X-Client-Key', ServiceKey: 'X-Service-Key' };

const caller = { branch: new URLSearchParams(location.search).get('branch') || '', scheme: '', secret: '' };

function credential(request) {
  if (caller.scheme && caller.secret) {
    request.headers[headers[caller.scheme]] = caller.scheme === 'BearerAuth' ? `Bearer ${caller.secret}` : caller.secret;
  }
}

function has(request, name) {
  return Object.keys(request.headers).some((h) => h.toLowerCase() === name.toLowerCase());
}

// The branch and, for the document itself, the credential go along with every request of the page. A request that is
// tried out has the credential by "Authorize", and an X-Branch of its own wins.
function prepare(request) {
  if (new URL(request.url, document.baseURI).origin !== location.origin) return request;
  if (caller.branch && !has(request, 'X-Branch')) request.headers['X-Branch'] = caller.branch;
  if (request.loadSpec) credential(request);
  return request;
}

// The viewer fills in the examples of parameters that may be left out, and a request with all of them finds nothing.
function withoutExamples(text) {
  const doc = JSON.parse(text);
  for (const p of Object.values(doc.components?.parameters ?? {})) {
    if (p.required || p.example === undefined) continue;
    p.description = `${p.description ?? ''}\n\nExample: \`${typeof p.example === 'string' ? p.example : JSON.stringify(p.example)}\``;
    delete p.example;
  }
  return JSON.stringify(doc);
}

function explain(response) {
  if (!/\/openapi\.json$/.test(new URL(response.url, document.baseURI).pathname)) return response;
  let message = '';
  if (response.ok) response.text = withoutExamples(response.text);
  if (!response.ok) {
    message = `${response.status}: the description cannot be read`;
    try {
      message = JSON.parse(response.text).error || message;
    } catch { /* not the body of an error */ }
  }
  field('problem').textContent = message;
  return response;
}

function show() {
  field('swagger-ui').replaceChildren();
  const ui = SwaggerUIBundle({
    url: new URL('openapi.json', document.baseURI).href,
    domNode: field('swagger-ui'),
    deepLinking: true,
    docExpansion: 'none',
    defaultModelsExpandDepth: 0,
    displayRequestDuration: true,
    filter: true,
    persistAuthorization: false,
    syntaxHighlight: { activated: true, theme: 'agate' },
    tryItOutEnabled: false,
    validatorUrl: null,
    requestInterceptor: prepare,
    responseInterceptor: explain,
    onComplete() {
      if (caller.scheme && caller.secret) ui.preauthorizeApiKey(caller.scheme, caller.secret);
      document.documentElement.dataset.ready = 'true';
    },
  });
}

field('branch').value = caller.branch;
field('scheme').addEventListener('change', () => {
  field('secret-label').hidden = !field('scheme').value;
});
field('caller').addEventListener('submit', (event) => {
  event.preventDefault();
  caller.branch = field('branch').value.trim();
  caller.scheme = field('scheme').value;
  caller.secret = field('secret').value.trim();
  const address = new URL(location.href);
  if (caller.branch) address.searchParams.set('branch', caller.branch);
  else address.searchParams.delete('branch');
  history.replaceState(null, '', address);
  show();
});
show();
