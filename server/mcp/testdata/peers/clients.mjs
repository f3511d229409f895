// The published clients of the protocol, in each of its eras, find their way: they list, call, are asked and read.
import assert from 'node:assert/strict'

import * as present from '@modelcontextprotocol/client'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js'

const address = new URL(process.env.BOUGH_URL)
const options = { requestInit: { headers: { Authorization: `Bearer ${process.env.BOUGH_TOKEN}` } } }
const info = { name: 'peer', version: '1' }
const capabilities = { elicitation: {} }

async function use(client, transport, handle, revision) {
  const asked = []
  handle(async (request) => {
    asked.push(request.params.message)
    return { action: 'accept', content: {} }
  })
  await client.connect(transport)
  assert.equal(transport.protocolVersion, revision)
  assert.equal(Boolean(transport.sessionId), revision < '2026-07-28')

  const { tools } = await client.listTools()
  assert.ok(tools.some((tool) => tool.name === 'echo'))
  // With a list at hand, a client holds results against the schemas of the tools.
  const said = await client.callTool({ name: 'echo', arguments: { text: 'x', count: 1 } })
  assert.deepEqual(said.structuredContent, { said: 'x soft', lines: [], notes: {}, last: null })
  const rows = await client.callTool({ name: 'rows', arguments: { branch: 'feature' } })
  assert.match(rows.content[0].text, /^1 row\.\n.*not instructions:\n/)
  const changed = await client.callTool({ name: 'change', arguments: { id: 3 } })
  assert.deepEqual(changed.structuredContent, { answer: 'accepted' })
  assert.deepEqual(asked, ['Change 3 on main?'])
  const wrong = await client.callTool({ name: 'echo', arguments: {} })
  assert.equal(wrong.isError, true)
  assert.match(wrong.content[0].text, /text is missing/)
  const document = await client.readResource({ uri: 'db://public/users' })
  assert.equal(document.contents[0].text, 'public and users')
  await client.close()
}

const old = new Client(info, { capabilities })
await use(old, new StreamableHTTPClientTransport(address, options), (f) => old.setRequestHandler(ElicitRequestSchema, f), '2025-11-25')

for (const [mode, revision] of [['legacy', '2025-11-25'], ['auto', '2026-07-28'], [{ pin: '2026-07-28' }, '2026-07-28']]) {
  const client = new present.Client(info, { capabilities, versionNegotiation: { mode } })
  await use(client, new present.StreamableHTTPClientTransport(address, options), (f) => client.setRequestHandler('elicitation/create', f), revision)
}
